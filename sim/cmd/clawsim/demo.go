package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/onnx/contract"
)

const demoLong = `demo walks a virtual Go1 with the real agent, in real time and over real sockets: it starts "clawsim robot" and
"clawagent run" beside itself, arms, stands the robot up, lets the policy walk it under one velocity command, sits it down,
and then judges by the robot's own log, which is physics' truth.

    demo ── HTTP: arm, stand, policy, command, sit ──► clawagent ◄── UDP, 500 Hz ──► clawsim robot
      └──────────────── reads robot.jsonl afterwards ───────────────────────────────────┘

It ends with 0 when the robot lay, stood, walked within 0.15 m/s of the command and lay again, never fell, and got the frames
that the agent sent (within 0.1 %). Without a policy the robot stands for the duration, and the demo ends with 3.

A machine that itself stood still (the robot logs that as stall) may trip the agent's judge, rightly; the demo then starts over
once. Without real-time rights (root, or CAP_SYS_NICE) other programs come in between more often: then the agent may be late by
50 ms instead of 20 (safety.loop_late_ms, guard.stale_ms), and there are 3 attempts in all. Both are told, and are in the JSON object; "timing" there says that the machine's timing was at fault.

The last line of standard output is one JSON object. The logs stay in --out.`

// demoPolicies are where a policy for the demo may lie, seen from the working folder or from the repository; the first that is there
// walks: the student that ships, and others' policy, which does not ship.
var demoPolicies = []string{"onnx/policies/student.onnx", "../shared/policies/go1_policy.onnx"}

const (
	demoSlow        = 0.4             // m/s; the robot's log calls it walking from 0.3
	demoMinDuration = 3 * time.Second // time to be seen walking
	demoMaxDuration = 24 * time.Hour
	demoAttempts    = 2               // of a machine that stands still
	demoAttemptsLow = 3               // without real-time rights
	demoPauseAfter  = 2 * time.Second // before the next
	demoLoopLateMs  = 50              // the agent's safety.loop_late_ms and guard.stale_ms without real-time rights: the most that they take
)

// demoFlags are demo's flags as typed.
type demoFlags struct {
	duration                    time.Duration
	policy, command, out, robot string
	asJSON                      bool
}

func newDemoCommand() *cobra.Command {
	f := demoFlags{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Walk a virtual Go1 with the real agent, and judge it",
		Long:  demoLong,
		Example: `clawsim demo
clawsim demo --duration 10s --policy student.onnx --command 0.6,0,0.3
make demo DURATION=30s POLICY=student.onnx`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.demo(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&f.duration, "duration", 30*time.Second, "time of walking, 3s..24h")
	flags.StringVar(&f.policy, "policy", "", "ONNX `FILE` with a contract; without it "+strings.Join(demoPolicies, ", else ")+", seen from the working folder or from the repository")
	flags.StringVar(&f.command, "command", "0.8,0,0", "velocity vx,vy,wz in m/s, m/s, rad/s: forward, left, counter-clockwise")
	flags.StringVar(&f.out, "out", "out/demo", "`FOLDER` of the logs")
	flags.StringVar(&f.robot, "robot", "udp", "`KIND` of way to the robot: udp, serial or bridge")
	flags.BoolVar(&f.asJSON, "json", false, "print the JSON object alone, without the story")
	return cmd
}

// demoConfig is what the flags mean.
type demoConfig struct {
	duration  time.Duration
	command   [3]float64 // vx, vy (m/s), wz (rad/s)
	policy    string     // file; "": none, the robot only stands
	name      string     // of the policy
	out       string     // folder
	clawsim   string     // programs
	clawagent string
}

// check refuses what cannot be meant, before anything is started.
func (f *demoFlags) check() (*demoConfig, error) {
	switch f.robot {
	case "udp":
	case "serial", "bridge":
		return nil, cli.NotAvailable(fmt.Errorf("demo: --robot %s: not available in this version; udp is", f.robot))
	default:
		return nil, cli.Usagef("demo: --robot %q: want udp, serial or bridge", f.robot)
	}
	if f.duration < demoMinDuration || f.duration > demoMaxDuration {
		return nil, cli.Usagef("demo: --duration %v: want %v..%v", f.duration, demoMinDuration, demoMaxDuration)
	}
	command, err := parseCommand(f.command)
	if err != nil {
		return nil, cli.Usagef("demo: %w", err)
	}
	if speed := math.Hypot(float64(command[0]), float64(command[1])); speed < demoSlow {
		return nil, cli.Usagef("demo: --command %q is %.2g m/s: want at least %v, so that it can be told from standing", f.command, speed, demoSlow)
	}
	c := &demoConfig{duration: f.duration, out: f.out}
	for i, v := range command {
		c.command[i] = rounded(float64(v))
	}
	if c.clawsim, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	c.clawagent = filepath.Join(filepath.Dir(c.clawsim), "clawagent")
	if _, err := os.Stat(c.clawagent); err != nil {
		return nil, cli.NotAvailable(fmt.Errorf("demo: the agent's program is not beside this one (%w): run make build", err))
	}
	if c.policy = f.findPolicy(c.clawsim); c.policy == "" {
		return c, nil
	}
	file, err := contract.Read(c.policy)
	if err == nil {
		err = file.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("demo: --policy: %w", err)
	}
	c.name = file.Contract.Name
	trained := file.Contract.Spec.Command
	for i, r := range [3][2]float32{trained.Vx, trained.Vy, trained.Wz} {
		if v := command[i]; v < r[0] || v > r[1] {
			return nil, cli.Usagef("demo: --command %q: %s is %v, and %s was trained for %v..%v",
				f.command, [3]string{"vx", "vy", "wz"}[i], v, filepath.Base(c.policy), r[0], r[1])
		}
	}
	return c, nil
}

// findPolicy is --policy, or the first policy that lies where one may, or "".
func (f *demoFlags) findPolicy(clawsim string) string {
	if f.policy != "" {
		return f.policy
	}
	repository := filepath.Dir(filepath.Dir(clawsim))
	for _, name := range demoPolicies {
		for _, path := range []string{name, filepath.Join(repository, name)} {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return ""
}

var errDemoStands = errors.New("demo: it stood, and did not walk: there is no policy. Name an ONNX file with a contract: " +
	"make demo POLICY=FILE, or clawsim demo --policy FILE (looked for " + strings.Join(demoPolicies, " and ") + ")")

func (f *demoFlags) demo(cmd *cobra.Command) error {
	cfg, err := f.check()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.out, 0o755); err != nil {
		return fmt.Errorf("demo: --out: %w", err)
	}
	// startChild wants it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sit, damp, release := cli.StopStages(cmd.Context())
	defer release()
	tell := cmd.ErrOrStderr()
	if f.asJSON {
		tell = io.Discard
	}
	story := newStory(tell)
	defer story.end()

	var result *demoResult
	earlier := []string{}
	for {
		d := demoAttempt{cfg: cfg, story: story, sit: sit, damp: damp}
		result, err = d.run()
		if err != nil { // nothing to judge: a program did not start
			return fmt.Errorf("demo: %w", err)
		}
		result.Attempts, result.Earlier = len(earlier)+1, earlier
		result.Timing = result.byTiming() && (sit.Err() == nil || result.Fault != "")
		if sit.Err() != nil || !result.again() {
			break
		}
		why, folder := result.timing(), fmt.Sprintf("attempt-%d", result.Attempts)
		earlier = append(earlier, why)
		story.say("%s", why)
		story.say("starting over (attempt %d of at most %d); the logs of this attempt are in %s", len(earlier)+1, result.most(), filepath.Join(cfg.out, folder))
		if err := keepLogs(cfg.out, folder); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		select {
		case <-time.After(demoPauseAfter):
		case <-sit.Done():
			return fmt.Errorf("demo: stopped by %w before attempt %d", context.Cause(sit), len(earlier)+1)
		}
	}
	story.verdict(result, cfg)
	story.end()
	if err := cli.PrintJSON(cmd.OutOrStdout(), result); err != nil {
		return err
	}
	switch {
	case !result.OK:
		first, details, more := strings.Cut(result.Failures[0], "\n")
		if more && f.asJSON { // else the story has told them
			first += "\n" + details
		}
		return fmt.Errorf("demo: %s", first)
	case cfg.policy == "":
		return cli.NotAvailable(errDemoStands)
	}
	return nil
}

// demoFiles are what an attempt leaves in the folder.
var demoFiles = []string{"robot.jsonl", "agent.jsonl", "robot.err", "agent.err"}

// keepLogs moves an attempt's files out of the next one's way.
func keepLogs(out, folder string) error {
	if err := os.MkdirAll(filepath.Join(out, folder), 0o755); err != nil {
		return err
	}
	for _, name := range demoFiles {
		if err := os.Rename(filepath.Join(out, name), filepath.Join(out, folder, name)); err != nil {
			return err
		}
	}
	return nil
}
