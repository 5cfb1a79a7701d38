package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// finding is one thing that the doctor saw.
type finding struct {
	Code   string `json:"code"`
	Level  string `json:"level"` // ok, warning, error
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// diagnosis is what doctor --json prints.
type diagnosis struct {
	OK       bool           `json:"ok"`
	Findings []finding      `json:"findings"`
	Robot    string         `json:"robot"`
	High     string         `json:"high"`
	Local    string         `json:"local"`
	Sport    string         `json:"sport"`
	Link     map[string]any `json:"link"`
}

func (d *diagnosis) add(level, code, remedy, format string, args ...any) {
	d.Findings = append(d.Findings, finding{Code: code, Level: level, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

func newDoctor() *cobra.Command {
	var (
		cfg     = defaultConfig()
		asJSON  bool
		armed   bool
		seconds float64
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why no state arrives, or what is wrong with it",
		Long: `doctor asks the high-level service first: a robot in sport mode stands under its
own controller and goes limp at the first low-level frame, so then none is sent.
Otherwise it sends damping frames for a second and looks at what comes back.

On a robot that is not on this machine, silence of the high-level service does
not prove that sport mode is off; then --arm, a person's word that the robot
lies or hangs, is needed before frames are sent.

Exit code 0: all is well, 1: something was found.`,
		Example: `  clawagent doctor --robot udp://192.168.123.10:8007
  clawagent doctor --robot udp://127.0.0.1:8007 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return cli.Usage(err)
			}
			if !(seconds >= 0.2 && seconds <= 60) {
				return cli.Usagef("--seconds: %v, want 0.2..60", seconds)
			}
			d, err := diagnose(cmd.Context(), &cfg, armed, seconds)
			if err != nil {
				return err
			}
			d.print(cmd.OutOrStdout(), asJSON)
			if !d.OK {
				return fmt.Errorf("doctor: the robot at %s is not ready", cfg.low())
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Robot, "robot", cfg.Robot, "the robot's low-level address, udp://HOST:PORT")
	f.StringVar(&cfg.High, "high", "", "address of the high-level service, HOST:PORT (default as run)")
	f.StringVar(&cfg.Local, "local", "", "address to send from, HOST:PORT (default: the system chooses)")
	f.BoolVar(&armed, "arm", false, "the robot lies or hangs, and a person stands beside it: frames may be sent")
	f.BoolVar(&cfg.Control.EncryptCRC, "encrypt-crc", false, "send the encrypted form of the CRC")
	f.Float64Var(&seconds, "seconds", 1, "how long to listen, s")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func diagnose(ctx context.Context, cfg *config, armed bool, seconds float64) (*diagnosis, error) {
	d := &diagnosis{Robot: cfg.low().String(), High: cfg.high().String(), Findings: []finding{}, Link: map[string]any{}}
	defer func() {
		d.OK = true
		for _, f := range d.Findings {
			d.OK = d.OK && f.Level != "error"
		}
	}()
	unlock, err := lockRobot(cfg.low())
	if err != nil {
		d.add("error", "another_agent", "Ask that agent for its state, or stop it first.", "%v; nothing was sent", err)
		return d, nil
	}
	defer unlock()

	sport, err := link.ProbeSport(ctx, cfg.high(), time.Second)
	if err != nil {
		return nil, err
	}
	d.Sport = sport.Result.String()
	switch sport.Result {
	case link.SportOn:
		d.add("error", "sport_mode", link.LowLevelHelp,
			"sport mode is on (mode %d, gait %d): the robot stands under its own controller, ignores low-level commands or goes limp at the first; no low-level frame was sent", sport.Mode, sport.GaitType)
		return d, nil
	case link.SportUnclear:
		d.add("error", "high_level_unclear", "Check --high.", "something answers at %s, but not as a Go1's high-level service does: %s; no low-level frame was sent", cfg.high(), sport.LastReject)
		return d, nil
	case link.SportSilent:
		if !cfg.low().Addr().IsLoopback() && !armed {
			d.add("error", "sport_mode_unknown", "Check cable and address. If the robot lies or hangs and its sport mode is off, say so with --arm. "+link.LowLevelHelp,
				"the high-level service at %s does not answer, so sport mode is not shown to be off; no low-level frame was sent", cfg.high())
			d.network(cfg, nil)
			return d, nil
		}
	}
	return d, d.listen(ctx, cfg, seconds)
}

// listen sends damping frames at 500 Hz and looks at the answers.
func (d *diagnosis) listen(ctx context.Context, cfg *config, seconds float64) error {
	udp, err := cfg.dial()
	if err != nil {
		return err
	}
	defer udp.Close()
	var cmd wire.LowCmd
	cmd.Init()
	for i := range go1.Joints {
		cmd.Motor[i] = wire.MotorCmd{Mode: safety.ModeServo, Kd: 3}
	}
	frame, err := wire.AppendLowCmd(nil, &cmd, udp.CRC())
	if err != nil {
		return err
	}
	var first, last, rx wire.LowState
	states, zeros, tempsZero, feetZero := 0, 0, true, true
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(end); {
		_ = udp.Send(frame) // refusals are counted, and named below
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		for {
			if _, ok := udp.Receive(&rx, link.Now()); !ok {
				break
			}
			if states++; states == 1 {
				first = rx
			}
			last = rx
			if rx.IMU.Quaternion == [4]float32{} && rx.Motor[2].Q == 0 {
				zeros++
			}
			for i := range go1.Joints {
				tempsZero = tempsZero && rx.Motor[i].Temperature == 0
			}
			feetZero = feetZero && rx.FootForce == [4]int16{}
		}
	}
	c := udp.Counters()
	d.network(cfg, udp)
	d.counters(&c)
	for _, h := range link.Hints(&c, cfg.low()) {
		d.add("error", hintCode(&c), hintRemedy(&c), "%s", h)
	}
	if states == 0 {
		if len(d.Findings) == 0 || d.Findings[len(d.Findings)-1].Level != "error" {
			d.add("error", "no_state", "Check address, cable and power. "+link.LowLevelHelp, "no state came back from %s", cfg.low())
		}
		return nil
	}
	d.add("ok", "states", "", "%d states in %.1f s, tick %d to %d", states, seconds, first.Tick, last.Tick)
	d.state(&last, last.Tick != first.Tick || states < 20, zeros == states, tempsZero, feetZero)
	return nil
}

// state names what is wrong inside well-formed states.
func (d *diagnosis) state(s *wire.LowState, moved, zeros, tempsZero, feetZero bool) {
	if zeros {
		d.add("error", "zeros", "Restart the robot; "+link.LowLevelHelp, "states arrive, but hold only zeros: the robot's main board has no data from IMU and motors")
		return
	}
	if !moved {
		d.add("error", "tick_stuck", safety.Faults[safety.TickStuck].Remedy, "the robot's clock stands at %d ms: the same state again and again", s.Tick)
	}
	norm := 0.0
	for _, q := range s.IMU.Quaternion {
		norm += float64(q) * float64(q)
	}
	if norm = math.Sqrt(norm); !(norm > 0.8 && norm < 1.2) {
		d.add("error", "quaternion_bad", safety.Faults[safety.QuaternionBad].Remedy, "the orientation has length %.2f, want 1", norm)
	} else if tilt := go1.Tilt(&s.IMU.Quaternion); tilt > 0.3 {
		d.add("warning", "tilt", "Set it on its belly.", "the body tilts %.2f rad; it will not stand up from there", tilt)
	}
	for i := range go1.Joints {
		m := &s.Motor[i]
		switch {
		case m.Q-m.Q != 0 || m.Dq-m.Dq != 0:
			d.add("error", "joint_not_finite", safety.Faults[safety.StateNotFinite].Remedy, "%s reports no number", go1.JointNames[i])
		case m.Mode == safety.ModeOverheat:
			d.add("error", "motor_overheat", safety.Faults[safety.MotorOverheatMode].Remedy, "%s says that it overheated (%d C)", go1.JointNames[i], m.Temperature)
		case m.Mode != safety.ModeServo:
			d.add("error", "motor_mode", safety.Faults[safety.MotorModeDropped].Remedy, "%s is in mode 0x%02X, not 0x0A", go1.JointNames[i], m.Mode)
		case m.Q < go1.StopLower[i]-0.15 || m.Q > go1.StopUpper[i]+0.15:
			d.add("error", "joint_range", "Its encoder or zero is wrong.", "%s reads %.2f rad, outside its stops", go1.JointNames[i], m.Q)
		case m.Temperature >= 65:
			d.add("warning", "motor_hot", safety.Faults[safety.MotorHot].Remedy, "%s is at %d C", go1.JointNames[i], m.Temperature)
		}
	}
	if tempsZero {
		d.add("warning", "temperature_unknown", safety.Faults[safety.MotorTempUnknown].Remedy, "no motor tells its temperature")
	}
	if feetZero {
		d.add("warning", "foot_force_zero", "Walking works without; contacts then come from torque and kinematics.", "the foot sensors read 0: contacts unknown to them")
	}
	var r wire.Remote
	wire.DecodeRemote(&s.Remote, &r)
	if !r.Present() {
		d.add("warning", "remote_absent", safety.Faults[safety.RemoteAbsent].Remedy, "the hand remote is absent: its stop (L2+B) would not work, and it will not stand up")
	}
	cells := 0
	for _, mv := range s.BMS.CellVoltage {
		if mv > 2500 && mv < 4500 {
			cells++
		}
	}
	switch {
	case cells == 0:
		d.add("warning", "battery_unknown", safety.Faults[safety.BatteryUnknown].Remedy, "no battery cell tells a plausible voltage")
	case s.BMS.SOC <= 20:
		d.add("warning", "battery_low", safety.Faults[safety.BatteryLow].Remedy, "the battery is at %d %%", s.BMS.SOC)
	}
}

// counters puts the link's figures beside the findings.
func (d *diagnosis) counters(c *link.Counters) {
	d.Link["sent"], d.Link["received"], d.Link["accepted"] = c.Sent, c.Received, c.Accepted
	d.Link["foreign"], d.Link["port_refused"], d.Link["unreachable"] = c.Foreign, c.Refused, c.Unreachable
	for i, n := range c.Rejected {
		if n > 0 {
			d.Link["rejected_"+wire.Reject(i).String()] = n
		}
	}
}

// hintCode names the likeliest cause of what the counters say.
func hintCode(c *link.Counters) string {
	switch {
	case c.Refused > 0 && c.Accepted == 0:
		return "nothing_listens"
	case c.Unreachable > 0 && c.Accepted == 0:
		return "unreachable"
	case c.Rejected[wire.RejectHead] > 0:
		return "bad_head"
	case c.Rejected[wire.RejectCRC] > 0:
		return "bad_crc"
	case c.Rejected[wire.RejectLevel] > 0:
		return "level_flag"
	case c.Rejected[wire.RejectShort]+c.Rejected[wire.RejectLong]+c.Rejected[wire.RejectEmpty] > 0:
		return "wrong_length"
	case c.Foreign > 0:
		return "wrong_port"
	case c.Received == 0:
		return "no_answer"
	}
	return "link"
}

func hintRemedy(c *link.Counters) string {
	switch hintCode(c) {
	case "nothing_listens":
		return "Check the port: a Go1's low level is 192.168.123.10:8007, its high level 192.168.123.161:8082."
	case "unreachable":
		return "Give this computer an address in 192.168.123.0/24 and check the cable."
	case "bad_crc":
		return "Try --encrypt-crc; some firmware wants and sends the other form."
	case "wrong_length", "bad_head", "level_flag":
		return "The sender speaks another robot's or version's protocol; this is for a Go1 (SDK 3.8)."
	case "wrong_port":
		return "Answers come from another address or port: give that one with --robot, or set --local 192.168.123.X:8090."
	}
	return "Check address, cable and power. " + link.LowLevelHelp
}

// network says from where to where, and what the kernel knows of the way.
func (d *diagnosis) network(cfg *config, udp *link.UDP) {
	if udp != nil {
		if a, err := udp.SourceAddr(); err == nil {
			d.Local = a.String()
		}
	}
	if arp := arpEntry(cfg.low().Addr()); arp != "" {
		d.Link["arp"] = arp
	} else if !cfg.low().Addr().IsLoopback() {
		d.Link["arp"] = "none"
	}
}

// arpEntry is the kernel's hardware address for an IPv4 neighbour, or "".
func arpEntry(a netip.Addr) string {
	f, err := os.Open("/proc/net/arp")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if c := strings.Fields(lines.Text()); len(c) >= 6 && c[0] == a.String() {
			return c[3] + " on " + c[5]
		}
	}
	return ""
}

func (d *diagnosis) print(w io.Writer, asJSON bool) {
	if asJSON {
		_ = cli.PrintJSON(w, d)
		return
	}
	fmt.Fprintf(w, "robot %s, high level %s (sport mode: %s)", d.Robot, d.High, d.Sport)
	if d.Local != "" {
		fmt.Fprintf(w, ", from %s", d.Local)
	}
	fmt.Fprintln(w)
	for k, v := range d.Link {
		fmt.Fprintf(w, "  %s %v\n", k, v)
	}
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%-7s  %s: %s\n", f.Level, f.Code, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(w, "         %s\n", f.Remedy)
		}
	}
	if d.OK {
		fmt.Fprintln(w, "all is well")
	}
}
