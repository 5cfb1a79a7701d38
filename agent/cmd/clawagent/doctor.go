package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// level of a finding. The robot is ready when none is an error.
type level string

const (
	levelError   level = "error"
	levelWarning level = "warning"
	levelOK      level = "ok"
)

// levelOrder is how findings are listed.
var levelOrder = map[level]int{levelError: 0, levelWarning: 1, levelOK: 2}

// finding is one thing that the doctor saw.
type finding struct {
	Code   string `json:"code"` // one word that does not change
	Level  level  `json:"level"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// diagnosis is what doctor --json prints.
type diagnosis struct {
	OK       bool              `json:"ok"`
	Findings []finding         `json:"findings"` // errors, warnings, ok; within each in the order they were seen
	Robot    string            `json:"robot"`
	High     string            `json:"high"`
	Local    string            `json:"local"` // what the robot sees as sender; "" when nothing could be sent
	Sport    string            `json:"sport"` // of link.ProbeSport; "" when it was not asked
	ARP      map[string]string `json:"arp"`   // hardware address of each address that is not on this machine
	Link     map[string]uint64 `json:"link"`  // datagrams by what became of them; empty when no low-level frame was sent
}

func (d *diagnosis) add(l level, code, remedy, format string, args ...any) {
	d.Findings = append(d.Findings, finding{Code: code, Level: l, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (d *diagnosis) fault(l level, f safety.Fault, format string, args ...any) {
	d.add(l, f.String(), safety.Faults[f].Remedy, format, args...)
}

func newDoctor(loader *cli.Loader[config]) *cobra.Command {
	var (
		asJSON  bool
		armed   bool
		seconds float64
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why no state arrives, or what is wrong with it",
		Long: `doctor asks the high-level service first: a robot in sport mode stands under its
own controller and goes limp at the first low-level frame, so then none is sent.
Otherwise it sends damping frames for a second and looks at what comes back:
nothing listening, another port, zeros, a bad CRC, a wrong length, another
version's protocol; then motors, IMU, battery and hand remote.

While an agent runs for the robot, doctor sends nothing: damping frames between
that agent's would make a walking robot fall.

On a robot that is not on this machine, silence of the high-level service does
not prove that sport mode is off; then --arm, a person's word that the robot
lies or hangs, is needed before frames are sent.

To leave sport mode: with the robot hung or lying, press on its remote L2+A,
L2+A, L2+B, then L1+L2+START.

Exit code 0: ready (warnings at most), 1: something stands in the way.`,
		Example: `  clawagent doctor --robot udp://192.168.123.10:8007
  clawagent doctor --robot udp://127.0.0.1:8007 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loader.Load()
			if err != nil {
				return err
			}
			if !(seconds >= 0.2 && seconds <= 60) {
				return cli.Usagef("--seconds: %v, want 0.2..60", seconds)
			}
			d, err := diagnose(cmd.Context(), &cfg, armed, time.Duration(seconds*1e9))
			if err != nil {
				return err
			}
			if err := d.print(cmd.OutOrStdout(), asJSON); err != nil {
				return err
			}
			if !d.OK {
				return fmt.Errorf("doctor: the robot at %s is not ready", cfg.low())
			}
			return nil
		},
	}
	f := cmd.Flags()
	loader.AddFlags(f)
	for flag, key := range map[string]string{"robot": "robot", "high": "high", "local": "local", "encrypt-crc": "control.encrypt_crc"} {
		loader.AddKeyFlag(f, flag, key)
	}
	// Not the configuration's arm: that one is about an agent which a person starts beside the robot.
	f.BoolVar(&armed, "arm", false, "the robot lies or hangs, and a person stands beside it: frames may be sent")
	f.Float64Var(&seconds, "seconds", 1, "how long to listen, s")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// diagnose looks at computer, network and robot in that order, and stops before
// whatever could bring a standing robot down. Its error is that of ctx.
func diagnose(ctx context.Context, cfg *config, armed bool, listenFor time.Duration) (*diagnosis, error) {
	d := &diagnosis{
		Robot: cfg.low().String(), High: cfg.high().String(),
		Findings: []finding{}, ARP: map[string]string{}, Link: map[string]uint64{},
	}
	d.rights(cfg.Control.Priority)
	err := d.robot(ctx, cfg, armed, listenFor)
	slices.SortStableFunc(d.Findings, func(a, b finding) int { return cmp.Compare(levelOrder[a.Level], levelOrder[b.Level]) })
	d.OK = !slices.ContainsFunc(d.Findings, func(f finding) bool { return f.Level == levelError })
	return d, err
}

func (d *diagnosis) robot(ctx context.Context, cfg *config, armed bool, listenFor time.Duration) error {
	unlock, err := lockRobot(cfg.low())
	switch {
	case errors.Is(err, errLocked):
		d.add(levelError, "another_agent", "Ask that agent (GET /api/v1/state), or stop it first.", "%v; nothing was sent", err)
		return nil
	case err != nil:
		d.add(levelError, "lock", "", "%v; nothing was sent", err)
		return nil
	}
	defer unlock()
	if err := releaseGuard(cfg); err != nil { // it may still damp for an agent that was killed
		d.add(levelError, "guard", "Look at `clawagent guard --status`, or end that process.", "%v; nothing was sent", err)
		return nil
	}
	defer d.arp(cfg)

	sport, err := link.ProbeSport(ctx, cfg.high(), time.Second)
	if sport.Local.IsValid() {
		d.Local = sport.Local.String()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		d.add(levelError, "unreachable", "Check cable and power, and that this computer has an address in the robot's network; a Go1's is 192.168.123.0/24.",
			"sport mode could not be looked for: %v; no low-level frame was sent", err)
		return nil
	}
	d.Sport = sport.Result.String()
	switch sport.Result {
	case link.SportOn:
		d.add(levelError, "sport_mode", link.LowLevelHelp,
			"sport mode is on (mode %d, gait %d): the robot stands under its own controller and goes limp at low-level frames; none was sent", sport.Mode, sport.GaitType)
		return nil
	case link.SportUnclear:
		d.add(levelError, "high_level_unclear", "Give the address of the high-level service with --high, 192.168.123.161:8082 on a Go1.",
			"something answers at %s, but not as a Go1's high-level service does (%s); no low-level frame was sent", cfg.high(), sport.LastReject)
		return nil
	case link.SportSilent:
		if !cfg.low().Addr().IsLoopback() && !armed {
			d.add(levelError, "sport_mode_unknown", "Check cable and address. If the robot lies or hangs and its sport mode is off, say so with --arm. "+link.LowLevelHelp,
				"the high-level service at %s does not answer, which does not show that sport mode is off; no low-level frame was sent", cfg.high())
			return nil
		}
		d.add(levelOK, "sport_mode_off", "", "no answer from the high-level service at %s", cfg.high())
	case link.SportRefused:
		d.add(levelOK, "sport_mode_off", "", "nothing listens at the high-level service's address %s", cfg.high())
	}
	return d.listen(ctx, cfg, listenFor)
}

// listen sends damping frames at 500 Hz and looks at the answers.
func (d *diagnosis) listen(ctx context.Context, cfg *config, listenFor time.Duration) error {
	udp, err := cfg.dial()
	if err != nil {
		d.add(levelError, "local_address", "Choose a free one with --local, or leave it out.", "%v", err)
		return nil
	}
	defer udp.Close()
	if a, err := udp.SourceAddr(); err == nil {
		d.Local = a.String()
	}
	var cmd wire.LowCmd
	cmd.Init()
	for i := range go1.Joints {
		cmd.Motor[i] = wire.MotorCmd{Mode: wire.ModeServo, Kd: 3}
	}
	frame, err := wire.AppendLowCmd(nil, &cmd, udp.CRC())
	if err != nil {
		return err
	}
	var seen states
	var rx wire.LowState
	every := time.NewTicker(2 * time.Millisecond)
	defer every.Stop()
	start := link.Now()
	for link.Now()-start < listenFor.Nanoseconds() {
		_ = udp.Send(frame) // refusals are counted, and named below
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		for {
			arrivedNs, ok := udp.Receive(&rx, link.Now())
			if !ok {
				break
			}
			seen.add(&rx, arrivedNs)
		}
	}
	took := link.Now() - start

	c := udp.Counters()
	d.Link = linkCounters(udp)
	hints := link.Hints(&c, cfg.low())
	for _, h := range hints {
		l := levelWarning
		if h.Severe {
			l = levelError
		}
		d.add(l, h.Code, h.Remedy, "%s", strings.TrimSuffix(h.Text, "."))
	}
	if seen.n > 0 {
		seen.examine(d, &cfg.Safety, start, took)
	} else if !slices.ContainsFunc(hints, func(h link.Hint) bool { return h.Severe }) {
		d.add(levelError, "no_state", "Check address, cable and power. "+link.LowLevelHelp, "no state came from %s", cfg.low())
	}
	return nil
}

func (d *diagnosis) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(w, d)
	}
	local, sport := cmp.Or(d.Local, "none"), cmp.Or(d.Sport, "not asked")
	fmt.Fprintf(w, "robot %s, from %s; high level %s: %s\n", d.Robot, local, d.High, sport)
	for _, a := range slices.Sorted(maps.Keys(d.ARP)) {
		fmt.Fprintf(w, "ARP %s: %s\n", a, d.ARP[a])
	}
	if len(d.Link) > 0 {
		fmt.Fprint(w, "datagrams:")
		for _, k := range slices.Sorted(maps.Keys(d.Link)) {
			if n := d.Link[k]; n > 0 {
				fmt.Fprintf(w, " %s %d", k, n)
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%-8s %s: %s\n", f.Level, f.Code, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(w, "         -> %s\n", f.Remedy)
		}
	}
	if d.OK {
		fmt.Fprintln(w, "\nready")
	} else {
		fmt.Fprintln(w, "\nnot ready")
	}
	return nil
}
