package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Bounds and defaults of play.
const (
	playMaxRows    = 8192
	playMaxSeconds = 86400
	playSettle     = 2.0 // s at the start that means leave out, at most half of all
)

// playStart makes every row a little different, so that 64 rows are not one row
// 64 times; small enough that a robot which stands well does not notice.
var playStart = task.Start{Joint: 0.03, Velocity: 0.1}

// playFlags are play's flags as typed.
type playFlags struct {
	policy, command, fault string
	physics, world         string
	rows, threads          int
	seconds                float64
	seed                   uint64
	asJSON                 bool

	view, video, shot string
	fps               float64

	commandSet, secondsSet, fpsSet bool // given, not the default
}

// newPlayCommand is `clawsim play`: a policy drives simulated robots through
// rollout.Run and is measured.
func newPlayCommand() *cobra.Command {
	f := playFlags{}
	cmd := &cobra.Command{
		Use:   "play",
		Short: "Let a policy walk in simulation and measure it",
		Long: fmt.Sprintf(`play lets a policy drive simulated Go1s on a flat floor, all under one velocity command, and says how they walked.

The policy is an ONNX file with a contract, or "zero" (every action 0: stand in the home pose) or "random" (every action
uniform in -1..1). Each row starts in its contract's home pose with every joint off by up to 0.03 rad and the trunk moving
at up to 0.1 m/s, both from --seed and the row's number. A row falls when its trunk is below 0.15 m, tilts by more than 60
degrees or a knee comes below 0.02 m; it then starts again but counts as fallen. Means are over the rows that never fell,
from 2 s (half of the time, if that is less) to the end; velocities are the trunk's, in the body's frame.

--fault puts one mistake between policy and robot, as other people's systems made them; "--fault list" prints the table.

--world puts the rows into a world of training or evaluation (%[1]s, or a file of JSON) with its
commands, noise, variation, delays, pushes, time-outs and rewards. Means are then over whatever commands the world gave; with
--command every row gets that one. How rows start, what a fall is, the floor's friction and whether the motors' torque falls with
speed then come from the world, not from --physics or what is said here; the friction in the joints stays that of --physics.

--view ADDR serves the robots in 3D to a browser, at real time while somebody looks: pause, slow down, push, drive them. Without
--seconds it goes on until Ctrl-C. ADDR without a host, or with 127.0.0.1, is for this machine alone. --video FILE renders the run
through the same page, in a browser without a screen (Debian package chromium), picture by picture, so that it shows simulated
time exactly on any machine; FILE ends in .webm or .mp4. --shot FILE.png is the page at the end of the run.

--physics full is this program's Go1: steps of 2 ms solved to convergence, an elliptic friction cone, floor friction 0.8,
friction in the joints 0.2 (calf 0.3) N*m, motors whose torque falls with speed. --physics coarse is the same bodies in the
simulation in which others measured the table of faults: steps of 4 ms, one Newton iteration with 5 of its line search, a
pyramidal cone, floor friction 0.6, friction in the joints 0.3 (calf 1.0) N*m, no torque-speed line. Two faults turn on just
that: without a velocity the policy speeds up until something gives, and with half the action its legs only just overcome
the joints' friction. --physics lean is what policies train in: only feet meet the floor, steps of 5 ms, one Newton iteration.
--physics peer is lean in coarse's steps and with its friction.`, strings.Join(task.WorldNames(), ", ")),
		Example: `clawsim play --policy policy.onnx --command 0.8,0,0
clawsim play --policy policy.onnx --command 0,0,1 --rows 256 --seconds 20 --json
clawsim play --policy policy.onnx --command 1,0,0 --fault target-late-2
clawsim play --policy policy.onnx --command 1,0,0 --fault action-scale-half --physics coarse
clawsim play --policy policy.onnx --world ship --physics lean --rows 256 --json
clawsim play --policy policy.onnx --command 0.8,0,0 --rows 16 --view 127.0.0.1:8090
clawsim play --policy policy.onnx --command 0.8,0,0 --rows 16 --video walk.webm --shot walk.png
clawsim play --policy zero --rows 1
clawsim play --fault list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.fault == "list" {
				return printFaults(cmd.OutOrStdout())
			}
			given := cmd.Flags().Changed
			f.commandSet, f.secondsSet, f.fpsSet = given("command"), given("seconds"), given("fps")
			return f.play(cmd)
		},
	}
	cmd.Flags().StringVar(&f.policy, "policy", "", `ONNX file with a contract, "zero" or "random"`)
	cmd.Flags().StringVar(&f.command, "command", "0,0,0", "velocity vx,vy,wz in m/s, m/s, rad/s: forward, left, counter-clockwise")
	cmd.Flags().IntVar(&f.rows, "rows", 64, fmt.Sprintf("robots, 1..%d", playMaxRows))
	cmd.Flags().Float64Var(&f.seconds, "seconds", 10, "simulated time")
	cmd.Flags().IntVar(&f.threads, "threads", runtime.NumCPU(), "physics threads; the result does not depend on them")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "of every random number")
	cmd.Flags().StringVar(&f.fault, "fault", "", `one mistake between policy and robot, or "list"`)
	cmd.Flags().StringVar(&f.physics, "physics", "full", strings.Join(mujoco.Physics(), ", "))
	cmd.Flags().StringVar(&f.world, "world", "", strings.Join(task.WorldNames(), ", ")+", or a JSON file; none: the command, and nothing varies")
	cmd.Flags().StringVar(&f.view, "view", "", fmt.Sprintf("serve a 3D view of the first %d rows at HOST:PORT", maxShown))
	cmd.Flags().StringVar(&f.video, "video", "", "render the first rows into this .webm or .mp4 file")
	cmd.Flags().StringVar(&f.shot, "shot", "", "write the view at the end of the run into this .png file")
	cmd.Flags().Float64Var(&f.fps, "fps", 25, "pictures a second of --video: the policy's steps a second, or a whole part of that")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

func printFaults(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "FAULT\tWHAT IS WRONG\tPHYSICS FULL\tPHYSICS COARSE\tELSEWHERE")
	for _, f := range task.Faults() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.Doc, f.Full, f.Coarse, f.Outcome)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, "\nWhat Playground's Go1 policy, told to walk at 1 m/s for 10 s, does: 32 rows here with --physics full and with\n"+
		"--physics coarse (falls: the first row and the median, or all), and one run in the simulation of others\n"+
		"(shared/policies/README.md), whose settings coarse has.\n")
	return err
}

// parseCommand reads vx,vy,wz.
func parseCommand(s string) (c [3]float32, err error) {
	parts := strings.Split(s, ",")
	if len(parts) != len(c) {
		return c, fmt.Errorf("--command %q: %d numbers, want vx,vy,wz", s, len(parts))
	}
	for i, name := range [3]string{"vx", "vy", "wz"} {
		v, err := strconv.ParseFloat(strings.TrimSpace(parts[i]), 32)
		if err != nil || v-v != 0 {
			return c, fmt.Errorf("--command %q: %s is %q, want a finite number", s, name, parts[i])
		}
		if math.Abs(v) > task.MaxCommand {
			return c, fmt.Errorf("--command %q: %s is %q, want -%[4]d..%[4]d", s, name, parts[i], task.MaxCommand)
		}
		c[i] = float32(v)
	}
	return c, nil
}

// config checks the flags but the policy; model is the name of what cfg lacks.
func (f *playFlags) config() (cfg mujoco.EnvConfig, model string, err error) {
	cfg = mujoco.DefaultEnvConfig(nil)
	command, err := parseCommand(f.command)
	if err != nil {
		return cfg, "", cli.Usage(err)
	}
	switch {
	case f.policy == "":
		return cfg, "", cli.Usagef("--policy: name an ONNX file, \"zero\" or \"random\"")
	case f.rows < 1 || f.rows > playMaxRows:
		return cfg, "", cli.Usagef("--rows %d: want 1..%d", f.rows, playMaxRows)
	case f.threads < 1 || f.threads > 1024:
		return cfg, "", cli.Usagef("--threads %d: want 1..1024", f.threads)
	case !(f.seconds > 0 && f.seconds <= playMaxSeconds):
		return cfg, "", cli.Usagef("--seconds %v: want more than 0, at most %d", f.seconds, playMaxSeconds)
	}
	if f.fault != "" {
		if cfg.Fault, err = task.FaultByName(f.fault); err != nil {
			return cfg, "", cli.Usagef("--fault: %w", err)
		}
	}
	if model, cfg.Params, err = mujoco.ByPhysics(f.physics); err != nil {
		return cfg, "", cli.Usagef("--%w", err)
	}
	cfg.Rows, cfg.Threads, cfg.Seed = f.rows, f.threads, f.seed
	if f.world != "" {
		if cfg.World, err = loadWorld(f.world); err != nil {
			return cfg, "", err
		}
	} else {
		cfg.World = cfg.Params.Nominal()
		cfg.World.Start = playStart
	}
	if f.world == "" || f.commandSet {
		cfg.World.Commands = task.Fixed(command[0], command[1], command[2])
	}
	return cfg, model, f.checkShow()
}

// loadPolicy reads a policy file that has a contract.
func loadPolicy(path string) (*contract.File, error) {
	file, err := contract.Read(path)
	if err != nil {
		return nil, err
	}
	err = file.Check()
	if errors.Is(err, contract.ErrNoContract) {
		return nil, fmt.Errorf("%w; its graph takes %v and gives %v", err, file.Model.Inputs, file.Model.Outputs)
	}
	return file, err
}

func (f *playFlags) play(cmd *cobra.Command) (err error) {
	cfg, model, err := f.config()
	if err != nil {
		return err
	}
	var policy rollout.Policy
	var file *contract.File
	switch f.policy {
	case "zero":
		cfg.Spec, policy = task.DefaultSpec(), zeroPolicy{}
	case "random":
		cfg.Spec, policy = task.DefaultSpec(), newRandomPolicy(f.seed, f.rows)
	default:
		if file, err = loadPolicy(f.policy); err != nil {
			return err
		}
		cfg.Spec = &file.Contract.Spec
	}
	if cfg.Model, err = mujoco.Load(model); err != nil {
		return err
	}
	defer cfg.Model.Close()
	env, err := mujoco.NewEnv(cfg)
	if err != nil {
		if file != nil {
			err = fmt.Errorf("%s: %w", f.policy, err)
		}
		return err
	}
	defer env.Close()
	if file != nil {
		spec := env.Spec()
		p, err := session.Open(file, session.Options{Rows: f.rows, Env: &spec})
		if err != nil {
			if errors.Is(err, session.ErrNoLibrary) {
				err = cli.NotAvailable(err)
			}
			return err
		}
		defer p.Close()
		policy = p
	}
	f.warn(cmd.ErrOrStderr(), cfg)

	seconds := f.seconds
	if f.view != "" && !f.secondsSet {
		seconds = math.Inf(1)
	}
	t := newTally(env.Spec(), seconds)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	show, err := f.show(ctx, cmd, env)
	if err != nil {
		return err
	}
	defer show.close()
	bar := newBar(cmd.ErrOrStderr(), t.steps)
	begin := time.Now()
	err = rollout.Run(ctx, []rollout.Env{env}, policy, rollout.SinkFunc(
		func(_ int, _ *rollout.Step, _ *rollout.Decision, after *rollout.Step) error {
			if bar != nil {
				_ = bar.Add(1) // a broken terminal does not stop the robots
			}
			recorded := t.record(after)
			if err := show.step(ctx, after, recorded != nil); err != nil {
				return err
			}
			return recorded
		}))
	wall := time.Since(begin).Seconds()
	if bar != nil {
		_ = bar.Finish()
	}
	interrupted := ctx.Err() != nil && t.steps > 0 && t.step < t.steps
	if err == nil && !interrupted {
		err = show.finish(ctx)
	}
	if err != nil && !interrupted { // a browser hears Ctrl-C too, and ends
		return err
	}
	r := t.result(wall)
	r.Policy, r.Fault, r.Seed, r.Threads = f.policyName(), f.fault, f.seed, min(f.threads, f.rows)
	r.PhysicsBad, r.Physics, r.World = env.BadRows(), f.physics, f.world
	if !interrupted {
		r.Video, r.VideoCodec, r.Shot = f.video, show.codec, f.shot
	}
	if c := &cfg.World.Commands; c.Min == c.Max {
		r.Command = &c.Min
	}
	if file != nil {
		r.Contract = string(file.Source)
	}
	if f.asJSON {
		err = cli.PrintJSON(cmd.OutOrStdout(), r)
	} else {
		err = r.print(cmd.OutOrStdout())
	}
	if interrupted {
		err = errors.Join(err, fmt.Errorf("interrupted after %.2f of %v s", r.Seconds, f.seconds))
	}
	return err
}

// policyName is the policy's file without its folder.
func (f *playFlags) policyName() string { return filepath.Base(f.policy) }

// warn says when a command is outside of what the policy was trained on.
func (f *playFlags) warn(w io.Writer, cfg mujoco.EnvConfig) {
	trained := cfg.Spec.Command
	for i, r := range [3]struct {
		name, unit string
		r          [2]float32
	}{{"vx", "m/s", trained.Vx}, {"vy", "m/s", trained.Vy}, {"wz", "rad/s", trained.Wz}} {
		if lo, hi := cfg.World.Commands.Min[i], cfg.World.Commands.Max[i]; lo < r.r[0] || hi > r.r[1] {
			command := fmt.Sprintf("command is %v", lo)
			if lo != hi {
				command = fmt.Sprintf("world's commands are %v..%v", lo, hi)
			}
			fmt.Fprintf(w, "note: the contract's range of %s is %v..%v %s, the %s\n", r.name, r.r[0], r.r[1], r.unit, command)
		}
	}
}

// newBar is a progress bar where a person watches a run that ends, nil elsewhere.
func newBar(w io.Writer, steps int) *progressbar.ProgressBar {
	if steps == 0 || !isTerminal(w) {
		return nil
	}
	return progressbar.NewOptions(steps, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("walking"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
}

// isTerminal says whether a person watches.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// playResult is what play prints; its JSON is the program's interface for
// scripts. A mean over no rows is null.
type playResult struct {
	Policy     string      `json:"policy"`
	Contract   string      `json:"contract,omitzero"` // where it was found
	Command    *[3]float32 `json:"command"`           // null: the world's, of many
	Fault      string      `json:"fault,omitzero"`
	Physics    string      `json:"physics"`
	World      string      `json:"world,omitzero"`
	Rows       int         `json:"rows"`
	Seconds    float64     `json:"seconds"`
	Seed       uint64      `json:"seed"`
	Threads    int         `json:"threads"`
	Vx         float64     `json:"vx_mean"` // m/s
	Vy         float64     `json:"vy_mean"`
	Wz         float64     `json:"wz_mean"` // rad/s
	VelErr     float64     `json:"vel_err"` // m/s, mean of the instant error
	YawErr     float64     `json:"yaw_err"` // rad/s
	Height     float64     `json:"height_mean"`
	PowerW     float64     `json:"power_w"`            // W, mean of the motors' |torque * speed|
	ActionRate float64     `json:"action_rate"`        // rad, mean of the targets' change a step
	Falls      int         `json:"falls"`              // rows that fell, at least once
	FallRate   float64     `json:"fall_rate"`          // share of rows, 0..1
	FirstFall  float64     `json:"fall_time_s"`        // of the row that fell first
	MedianFall float64     `json:"fall_time_median_s"` // of each fallen row's first fall
	PhysicsBad int64       `json:"physics_bad"`        // episodes that ended because the physics went bad
	StepsPerS  float64     `json:"steps_per_s"`        // rows x policy steps, policy included
	Video      string      `json:"video,omitzero"`     // files that were written
	VideoCodec string      `json:"video_codec,omitzero"`
	Shot       string      `json:"shot,omitzero"`
}

func (r *playResult) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "policy\t%s\n", r.Policy)
	if r.Fault != "" {
		fmt.Fprintf(table, "fault\t%s\n", r.Fault)
	}
	fmt.Fprintf(table, "physics\t%s\n", r.Physics)
	if r.World != "" {
		fmt.Fprintf(table, "world\t%s\n", r.World)
	}
	fmt.Fprintf(table, "rows\t%d for %.2f s, seed %d, %d threads, %.0f steps/s\n", r.Rows, r.Seconds, r.Seed, r.Threads, r.StepsPerS)
	falls := "none"
	if r.Falls > 0 {
		falls = fmt.Sprintf("%d rows, the first at %.2f s, median %.2f s", r.Falls, r.FirstFall, r.MedianFall)
	}
	fmt.Fprintf(table, "falls\t%s\n", falls)
	if r.PhysicsBad > 0 {
		fmt.Fprintf(table, "physics bad\t%d episodes\n", r.PhysicsBad)
	}
	if r.Falls == r.Rows {
		return table.Flush()
	}
	fmt.Fprintf(table, "\tvx\tvy\twz\n")
	if c := r.Command; c != nil {
		fmt.Fprintf(table, "command\t%.3f\t%.3f\t%.3f\n", c[0], c[1], c[2])
	}
	fmt.Fprintf(table, "mean\t%.3f\t%.3f\t%.3f\n", r.Vx, r.Vy, r.Wz)
	fmt.Fprintf(table, "error\t%.3f m/s, %.3f rad/s\n", r.VelErr, r.YawErr)
	fmt.Fprintf(table, "height\t%.3f m\n", r.Height)
	fmt.Fprintf(table, "power\t%.0f W\n", r.PowerW)
	return table.Flush()
}

// orNaN is x/n, NaN for nothing.
func orNaN(x float64, n int) float64 {
	if n == 0 {
		return math.NaN()
	}
	return x / float64(n)
}
