package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

const senderLong = `sender is somebody else on the network: a program that sends valid frames of the maker's low level to a robot which an
agent already drives, as a second controller, an example of the SDK left running or the maker's own sport mode would
(--what damping or pose), or states to an agent that are not its robot's (--what states: a robot that stands at home).
It begins at once and goes on until a signal, or begins after --after, ends after --seconds, and begins anew every --every.

Commands leave this machine only with --to-hardware: a Go1 that stands falls at the first, also at damping, and a pose gives
it torque that no judge has looked at. Behind an address of this machine's own may be a relay to one: do not aim at that.

Run it as a process of its own, from another address (--from 127.0.0.2:0), or in a network namespace of its own.`

const senderExample = `clawsim sender --to 127.0.0.1:8007 --what pose --rate 500 --seconds 2
clawsim sender --to 127.0.0.1:8007 --from 127.0.0.2:0 --what damping --rate 20 --json
clawsim sender --to 127.0.0.1:8007 --from 127.0.0.2:0 --what pose --after 10 --seconds 0.2 --every 5    # at 10 s, 15 s, 20 s ...
clawsim sender --to 127.0.0.1:40312 --what states
ip netns exec other clawsim sender --to 10.0.0.1:8007 --what damping --to-hardware`

// senderOptions are the flags.
type senderOptions struct {
	to, from, what, crc string
	rate, seconds       float64
	after, every        float64
	kp, kd              float64
	hardware            bool
	json                bool
}

func newSenderCommand() *cobra.Command {
	o := senderOptions{}
	cmd := &cobra.Command{
		Use:     "sender",
		Short:   "Be somebody else who sends frames",
		Long:    senderLong,
		Example: senderExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.sender()
			if err != nil {
				return cli.Usage(err)
			}
			return s.run(cmd, o.json)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.to, "to", "", "UDP `ADDRESS` to send to: a robot's low level, or an agent's (IPv4)")
	flags.StringVar(&o.from, "from", "", "local UDP `ADDRESS` to send from; port 0 lets the kernel choose, and without this it chooses all of it")
	flags.StringVar(&o.what, "what", "damping", "`KIND` of frame: damping (Kd of --kd alone), pose (home, by --kp and --kd) or states")
	flags.Float64Var(&o.rate, "rate", 500, "frames a second, `HZ`")
	flags.Float64Var(&o.seconds, "seconds", 0, "end after `S` seconds; 0 sends until a signal")
	flags.Float64Var(&o.after, "after", 0, "begin `S` seconds after it is ready")
	flags.Float64Var(&o.every, "every", 0, "begin anew every `S` seconds, from start to start, for --seconds each time, until a signal; 0 begins once")
	flags.Float64Var(&o.kp, "kp", 60, "of pose, N·m/rad")
	flags.Float64Var(&o.kd, "kd", 5, "of damping and pose, N·m·s/rad")
	flags.StringVar(&o.crc, "crc", "plain", "`FORM` of a command's CRC: plain or encrypted")
	flags.BoolVar(&o.hardware, "to-hardware", false, "commands may go to an address that is not this machine's loopback: your word that whatever robot is there may fall")
	flags.BoolVar(&o.json, "json", false, "print one JSON object when ready and one at the end")
	return cmd
}

// sender sends frame number i, counted from 0, rate times a second.
type sender struct {
	to, from              netip.AddrPort // from is not valid where the kernel may choose
	what                  string
	rate                  float64
	after, seconds, every float64 // s
	frame                 func(i uint64) ([]byte, error)
}

// senderReady is the first line of --json.
type senderReady struct {
	Ready bool   `json:"ready"`
	From  string `json:"from"`
	To    string `json:"to"`
	What  string `json:"what"`
}

// senderDone is the last.
type senderDone struct {
	Sent     uint64  `json:"sent"`
	Failed   uint64  `json:"failed"`   // that the system did not take
	Late     uint64  `json:"late"`     // left out because this process was held up
	Answered uint64  `json:"answered"` // states that came back
	Bursts   uint64  `json:"bursts"`   // times that it began
	Seconds  float64 `json:"seconds"`  // since it first began
	From     string  `json:"from"`
}

// sender checks the flags. Its error names the one that is wrong.
func (o *senderOptions) sender() (*sender, error) {
	s := &sender{what: o.what, rate: o.rate, after: o.after, seconds: o.seconds, every: o.every}
	for _, a := range []struct {
		flag, text string
		into       *netip.AddrPort
	}{{"--to", o.to, &s.to}, {"--from", o.from, &s.from}} {
		if a.flag == "--from" && a.text == "" {
			continue
		}
		v, err := netip.ParseAddrPort(a.text)
		if err != nil || !v.Addr().Unmap().Is4() || a.flag == "--to" && v.Port() == 0 {
			return nil, fmt.Errorf("sender: %s: %q is not an IPv4 address and port, such as 127.0.0.1:8007", a.flag, a.text)
		}
		*a.into = v
	}
	for _, n := range []struct {
		flag      string
		v, lo, hi float64
	}{{"--rate", o.rate, 0.1, 20000}, {"--seconds", o.seconds, 0, 1e6}, {"--after", o.after, 0, 1e6}, {"--every", o.every, 0, 1e6}, {"--kp", o.kp, 0, 1000}, {"--kd", o.kd, 0, 1000}} {
		if math.IsNaN(n.v) || n.v < n.lo || n.v > n.hi {
			return nil, fmt.Errorf("sender: %s: %v, want %v..%v", n.flag, n.v, n.lo, n.hi)
		}
	}
	if o.every > 0 && (o.seconds == 0 || o.seconds >= o.every) {
		return nil, fmt.Errorf("sender: --every: %v s from start to start, and --seconds %v each time: want more than 0, and less than --every", o.every, o.seconds)
	}
	form := wire.PlainCRC
	switch o.crc {
	case "plain":
	case "encrypted":
		form = wire.EncryptedCRC
	default:
		return nil, fmt.Errorf("sender: --crc: %q, want plain or encrypted", o.crc)
	}
	kp := float32(o.kp)
	switch o.what {
	case "damping":
		kp = 0
	case "pose":
	case "states":
		s.frame = standingState
		return s, nil
	default:
		return nil, fmt.Errorf("sender: --what: %q, want damping, pose or states", o.what)
	}
	if !o.hardware && !s.to.Addr().Unmap().IsLoopback() {
		return nil, fmt.Errorf("sender: --to: %s is not on this machine: a robot that stands there falls at the first command; if that is meant say --to-hardware", s.to)
	}
	var c wire.LowCmd
	c.Init()
	for i := range go1.Joints {
		c.Motor[i] = wire.MotorCmd{Mode: wire.ModeServo, Q: go1.Home[i], Kp: kp, Kd: float32(o.kd)}
	}
	frame, err := wire.AppendLowCmd(nil, &c, form)
	if err != nil {
		return nil, fmt.Errorf("sender: %w", err)
	}
	s.frame = func(uint64) ([]byte, error) { return frame, nil }
	return s, nil
}

// standingState is the state of a robot that stands at home and has done so since i periods of 2 ms.
func standingState(i uint64) ([]byte, error) {
	var s wire.LowState
	s.Init()
	s.Tick = uint32(2 * i)
	s.IMU.Quaternion[0], s.IMU.Accelerometer[2], s.IMU.Temperature = 1, 9.81, 40
	for j := range go1.Joints {
		q := go1.Home[j]
		s.Motor[j] = wire.MotorState{Mode: wire.ModeServo, Q: q, QRaw: q, Temperature: 30}
	}
	s.BMS.SOC, s.BMS.Status = 88, 1
	for k := range s.BMS.CellVoltage {
		s.BMS.CellVoltage[k] = 3904
	}
	s.FootForce = [4]int16{80, 80, 80, 80}
	return wire.AppendLowState(nil, &s, wire.FormFor(s.LevelFlag))
}

func (s *sender) run(cmd *cobra.Command, asJSON bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if !s.from.IsValid() {
		route, err := net.Dial("udp4", s.to.String()) // sends nothing: it asks the system which of its addresses leads there
		if err != nil {
			return fmt.Errorf("sender: --to: %w", err)
		}
		s.from = netip.AddrPortFrom(route.LocalAddr().(*net.UDPAddr).AddrPort().Addr(), 0)
		route.Close()
	}
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(s.from))
	if err != nil {
		return fmt.Errorf("sender: --from: %w", err)
	}
	defer conn.Close()
	from := conn.LocalAddr().String()
	out := cmd.OutOrStdout()
	if asJSON {
		err = cli.PrintReady(out, senderReady{Ready: true, From: from, To: s.to.String(), What: s.what})
	} else {
		_, err = fmt.Fprintf(out, "%s from %s to %s, %v a second\n", s.what, from, s.to, s.rate)
	}
	if err != nil {
		return err
	}
	done := senderDone{From: from}
	answers := make(chan uint64, 1)
	go func() { answers <- countAnswers(conn) }()
	refused, err := s.send(ctx, conn, &done)
	if err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(linger)); err != nil {
		return fmt.Errorf("sender: %w", err)
	}
	done.Answered = <-answers
	if asJSON {
		err = cli.PrintJSON(out, done)
	} else {
		_, err = fmt.Fprintf(out, "%d frames in %.1f s, %d answers, %d not taken, %d left out\n", done.Sent, done.Seconds, done.Answered, done.Failed, done.Late)
	}
	if done.Sent == 0 && refused != nil {
		err = errors.Join(err, fmt.Errorf("sender: no frame left: %w", refused))
	}
	return err
}

// linger is how long answers to the last frames are waited for.
const linger = 200 * time.Millisecond

// countAnswers counts the states that come until the socket's deadline has passed or it is closed.
func countAnswers(conn *net.UDPConn) (n uint64) {
	var buf [2048]byte
	var state wire.LowState
	for {
		size, _, err := conn.ReadFromUDPAddrPort(buf[:])
		if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
			return n
		}
		if err == nil && wire.DecodeLowState(buf[:size], &state) == nil {
			n++
		}
	}
}

// send sends, once or again and again, until the time is over or ctx ends. refused is what the system said last when it did not take a frame.
func (s *sender) send(ctx context.Context, conn *net.UDPConn, done *senderDone) (refused, err error) {
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
	first := time.Now().Add(seconds(s.after))
	defer func() { done.Seconds = max(time.Since(first).Seconds(), 0) }()
	for {
		not, err := s.burst(ctx, conn, first.Add(seconds(s.every*float64(done.Bursts))), done)
		if not != nil {
			refused = not
		}
		if err != nil || s.every == 0 || ctx.Err() != nil {
			return refused, err
		}
	}
}

// burst sends from start on, until the time is over or ctx ends. After this process was held up it leaves out the frames that are overdue
// but for the newest. Frames are numbered on from one burst to the next.
func (s *sender) burst(ctx context.Context, conn *net.UDPConn, start time.Time, done *senderDone) (refused, err error) {
	period := time.Duration(float64(time.Second) / s.rate)
	frames, number := uint64(math.MaxUint64), uint64(0)
	if s.seconds > 0 {
		frames = max(uint64(math.Round(s.seconds*s.rate)), 1)
		number = done.Bursts * frames
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := uint64(0); i < frames; i++ {
		due := start.Add(time.Duration(float64(i) / s.rate * float64(time.Second)))
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return refused, nil
		case <-timer.C:
		}
		if i == 0 {
			done.Bursts++
		}
		if late := time.Since(due); late > 20*time.Millisecond {
			skip := min(uint64(late/period), frames-1-i)
			done.Late += skip
			i += skip
		}
		b, err := s.frame(number + i)
		if err != nil {
			return nil, fmt.Errorf("sender: %w", err)
		}
		if _, err := conn.WriteToUDPAddrPort(b, s.to); err != nil {
			done.Failed++
			refused = err
		} else {
			done.Sent++
		}
	}
	return refused, nil
}
