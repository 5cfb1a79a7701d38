package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/httpapi"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/session"
)

// heapPercent keeps the garbage collector out of the loop's way: the agent holds
// about 3 MB, and HTTP may fill some 15 more before it begins to work. A fixed
// limit (debug.SetMemoryLimit) would be wrong: with anything leaked beyond it the
// collector runs without end, and of 500 deadlines the loop missed 43 (promise 18).
const heapPercent = 300

func newRun(loader *cli.Loader[config]) *cobra.Command {
	var now atStart
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent beside a robot",
		Long: `run talks to one Go1 and serves HTTP on this machine until it is stopped.

It sends nothing until a person arms it (POST /api/v1/arm, or --arm), and then
damping frames only, until it is told to stand: a Go1 that stands under its own
sport mode goes limp at the first foreign low-level frame.

The first Ctrl-C (or SIGTERM) sits the robot down, the second damps it at once;
either way damping is sent for half a second before the program ends. L2+B on
the hand remote damps at any time. If this program is killed (kill -9, out of
memory) or stands still, its guard damps the robot: a process of its own that run
starts, see "clawagent guard --help". With the cable out or this computer dead, no
software here can stop the robot: it goes on with its last command.`,
		Example: `  clawagent run --robot udp://192.168.123.10:8007 --policy student.onnx
  clawagent run --robot udp://127.0.0.1:8007 --policy student.onnx --http 127.0.0.1:8080
  curl -X POST -H 'Content-Type: application/json' -d '{}' http://127.0.0.1:8080/api/v1/arm
  curl -X POST -H 'Content-Type: application/json' -d '{"mode":"stand"}' http://127.0.0.1:8080/api/v1/mode`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loader.Load()
			if err != nil {
				return err
			}
			return run(cmd, &cfg, now)
		},
	}
	f := cmd.Flags()
	loader.AddFlags(f)
	for flag, key := range map[string]string{
		"robot": "robot", "high": "high", "local": "local", "policy": "policy", "http": "http",
		"log": "log", "unproven": "unproven", "no-remote": "safety.without_remote", "no-guard": "guard.without", "lockstep": "control.lockstep",
	} {
		loader.AddKeyFlag(f, flag, key)
	}
	f.BoolVar(&now.asJSON, "json", false, "print one JSON line when ready and one at the end")
	f.BoolVar(&now.arm, "arm", false, "arm at start: a person stands beside the robot and it may be sent damping frames")
	f.BoolVar(&now.sportIsOff, "sport-off", false, "a person's word that sport mode is off, for a robot whose high-level service does not answer")
	return cmd
}

// policyFile is a loaded policy with its session.
type policyFile struct {
	file    *contract.File
	session *session.Policy
	gate    func(*go1.Reading) error
}

func openPolicy(cfg *config) (*policyFile, error) {
	file, err := contract.Load(cfg.Policy)
	if err != nil {
		return nil, err
	}
	spec := &file.Contract.Spec
	if err := go1.Fit(spec, go1.Sensing{LinVel: true}); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Policy, err)
	}
	s, err := session.Open(file, session.Options{})
	if errors.Is(err, session.ErrNoLibrary) {
		return nil, cli.NotAvailable(err)
	}
	if err != nil {
		return nil, err
	}
	observer, err := go1.NewObserver(spec, "policy", 1, nil)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // two requests may ask at once
	obs := make([]float32, observer.Dim())
	gate := func(r *go1.Reading) error {
		mu.Lock()
		defer mu.Unlock()
		if !file.Contract.Proven() && cfg.Unproven {
			return nil
		}
		observer.Reset(0)
		observer.Observe(0, r, obs)
		if z, term := file.Contract.Z(obs); !(z <= cfg.Control.ObservationLimitZ) {
			return fmt.Errorf("the policy is not proven to fit: standing, its observation %s is %.1f standard deviations from its training mean, want at most %.1f",
				term, z, cfg.Control.ObservationLimitZ)
		}
		return nil
	}
	return &policyFile{file: file, session: s, gate: gate}, nil
}

// atStart is what holds for one start: a person's word may not lie in a file.
type atStart struct {
	arm        bool // a person stands beside the robot
	sportIsOff bool // a person saw to it
	asJSON     bool
}

// run is the agent's life.
func run(cmd *cobra.Command, cfg *config, now atStart) error {
	ahead := !cfg.Control.Lockstep && cfg.Control.Priority > 0 && cli.Ahead()
	debug.SetGCPercent(heapPercent)
	runtime.GOMAXPROCS(max(runtime.NumCPU(), 2) + 1) // the loop's thread keeps one to itself

	unlock, err := lockRobot(cfg.low())
	for n := 0; n < reapTries && errors.Is(err, errLocked); n++ { // perhaps by one that was killed just now
		time.Sleep(guardPause)
		unlock, err = lockRobot(cfg.low())
	}
	if err != nil {
		return err
	}
	defer unlock()

	// After the lock: a second agent must not empty the first one's file.
	journal, err := openJournal(cmd.ErrOrStderr(), cfg.Log)
	if err != nil {
		return err
	}
	defer journal.close()

	// A guard may damp the robot for an agent that was killed: what can fail does so before that one is relieved.
	var policy *policyFile
	if cfg.Policy != "" {
		if policy, err = openPolicy(cfg); err != nil {
			return err
		}
		defer policy.session.Close()
	}
	listener, err := net.Listen("tcp", cfg.HTTP)
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	defer listener.Close() // for the case that the server does not come to take it
	udp, later, err := dialOrHeld(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	if !later {
		defer udp.Close()
	}
	needGuard := !cfg.Guard.Without && !cfg.Control.Lockstep
	watch := guarding{cfg: cfg, log: journal.log}
	if needGuard {
		if err := watch.join(); err != nil {
			return fmt.Errorf("%w (run --no-guard works without)", err)
		}
		defer watch.close()
	} else if err := releaseGuard(cfg); err != nil {
		return err
	}
	if later {
		if udp, err = cfg.dial(); err != nil {
			return err
		}
		defer udp.Close()
	}

	parts := control.Parts{
		NeedGuard: needGuard,
		Link:      udp, Safety: cfg.Safety, Estimate: estimate.DefaultConfig(),
		SportOff: func(ctx context.Context) error { return sportOff(ctx, cfg, now.sportIsOff, journal.log) },
	}
	known := newContacts(cfg)
	parts.MayStand = known.mayStand
	journal.warns = func(s *control.Snapshot) string { _, warning := known.tell(s); return warning }
	info := httpapi.Info{Robot: go1.Robot, LinkCounters: func() map[string]uint64 { return linkCounters(udp) }, LinkLoss: known.tell, FirstContact: known.asked}
	build := cli.ReadBuild("clawagent")
	info.Version, info.Commit = build.Version, build.Commit

	if policy != nil {
		parts.Spec, parts.Gate = &policy.file.Contract.Spec, policy.gate
		info.PolicyName, info.PolicySHA256 = policy.file.Contract.Name, policy.file.SHA256
		info.ContractSource = string(policy.file.Source)
		info.CommandRange = policy.file.Contract.Command
		if !policy.file.Contract.Proven() {
			journal.log.Warn("policy not proven: its contract lacks the mean and std of its observations", "allowed", cfg.Unproven)
		}
	}
	var realtime atomic.Value
	realtime.Store("")
	info.Realtime = func() string { return realtime.Load().(string) }
	parts.Started = func() error {
		how := control.Realtime(&cfg.Control)
		realtime.Store(how)
		return nil
	}

	if needGuard {
		if parts.Guard, err = watch.register(udp, now.sportIsOff); err != nil {
			return err
		}
	}
	loop, err := control.New(cfg.Control, parts)
	if err != nil {
		return err
	}
	info.Guard = loop.Guard
	server, err := httpapi.New(httpapi.DefaultConfig(), loop, info)
	if err != nil {
		return err
	}

	var env rollout.Env
	if policy != nil {
		if env, err = loop.Env(); err != nil {
			return err
		}
	}

	sit, damp, release := cli.StopStages(cmd.Context())
	defer release()
	background, cancel := context.WithCancel(context.WithoutCancel(cmd.Context()))
	others := helpers{loop: loop, log: journal.log}
	loopDone := make(chan error, 1)
	stopOthers := func() { cancel(); others.wait() }
	defer stopOthers() // whatever ends this function: the loop damps first

	others.run("HTTP server", func() {
		if err := server.Serve(background, listener); err != nil {
			journal.log.Error("HTTP server ended; the robot goes on, its remote and Ctrl-C still stop it", "err", err)
		}
	})
	if env != nil {
		others.run("policy", func() { drive(background, loop, env, policy.session, journal.log) })
	}
	var before control.Snapshot
	loop.Snapshot(&before)
	others.started = true
	go func() { loopDone <- loop.Run(background) }()
	others.run("journal", func() { journal.watch(loop, before) })
	others.run("results", func() { known.follow(loop) })
	others.run("first contact", func() {
		select {
		case <-known.unasked:
			journal.log.Warn(unasked)
		case <-loop.Ended():
		}
	})
	// These two never print: a terminal that takes no more may not swallow a stop.
	stage := func(asked context.Context) {
		go func() {
			select {
			case <-asked.Done():
				loop.Stop()
			case <-loop.Ended():
			}
		}()
	}
	stage(sit)
	stage(damp)
	others.run("stop messages", func() {
		for _, m := range []struct {
			asked context.Context
			text  string
		}{{sit, "stopping: sitting down first; once more damps at once"}, {damp, "stopping: damping at once"}} {
			select {
			case <-m.asked.Done():
				journal.log.Info(m.text, "why", context.Cause(m.asked).Error())
			case <-loop.Ended():
				return
			}
		}
	})
	if needGuard {
		others.run("guard", func() { watch.keep(background, loop, udp, now.sportIsOff) })
	} else if !cfg.Control.Lockstep {
		journal.log.Warn("working WITHOUT the guard: nothing damps the robot if this program dies")
	}
	if cfg.Safety.WithoutRemote {
		journal.log.Warn("working WITHOUT the hand remote: its stop button is not there")
	}
	ready(cmd.OutOrStdout(), now.asJSON, cfg, listener, &info, ahead, showGuard(loop))
	if now.arm {
		others.run("arming", func() {
			if err := loop.Arm(background); err != nil {
				journal.log.Error("not armed", "err", err)
			}
		})
	}

	err = <-loopDone
	release()
	stopOthers()
	return finish(cmd.OutOrStdout(), now.asJSON, cfg, loop, udp, err)
}

// helpers are the goroutines beside the loop.
type helpers struct {
	loop    *control.Loop
	log     *slog.Logger
	started bool // the loop runs
	group   sync.WaitGroup
}

// run starts one. If it panics, the robot is damped and the program ends.
func (h *helpers) run(name string, f func()) {
	h.group.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				h.loop.Stop()
				h.loop.Stop()
				h.log.Error("a mistake in this program: damping and ending", "where", name, "panic", p, "stack", string(debug.Stack()))
			}
		}()
		f()
	})
}

// helperPatience is how long the goroutines get to end; one that hangs (a policy in
// native code, a terminal that takes no more) may not keep the program.
const helperPatience = 3 * time.Second

// wait waits for the loop, which ends with its own bound, and a while for the
// others.
func (h *helpers) wait() {
	if h.started {
		<-h.loop.Ended()
	}
	done := make(chan struct{})
	go func() { h.group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(helperPatience):
	}
}

// drive is the policy's thread. A policy that gives no usable action is damped;
// an operator may ask for it again.
func drive(ctx context.Context, loop *control.Loop, env rollout.Env, p rollout.Policy, log *slog.Logger) {
	for ctx.Err() == nil {
		err := rollout.Run(ctx, []rollout.Env{env}, p, nil)
		if err == nil || errors.Is(err, rollout.ErrClosed) {
			return
		}
		loop.PolicyFailed()
		log.Error("policy failed", "err", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// showGuard is what the first and the last line say of the guard.
func showGuard(loop *control.Loop) httpapi.Guard {
	var s control.Snapshot
	loop.Snapshot(&s)
	return httpapi.NewGuard(s.GuardAlive, s.NoGuard, loop.Guard)
}

func ready(w io.Writer, asJSON bool, cfg *config, l net.Listener, info *httpapi.Info, ahead bool, guarded httpapi.Guard) {
	if asJSON {
		_ = cli.PrintReady(w, map[string]any{"ready": true, "http": l.Addr().String(), "robot": cfg.low().String(),
			"ahead": ahead, "without_remote": cfg.Safety.WithoutRemote, "without_guard": cfg.Guard.Without, "guard": guarded, "policy": info.PolicyName, "policy_sha256": info.PolicySHA256, "pid": os.Getpid()})
		return
	}
	fmt.Fprintf(w, "clawagent: robot %s, http://%s, ", cfg.low(), l.Addr())
	if info.PolicyName == "" {
		fmt.Fprintln(w, "no policy (it stands and sits; --policy FILE makes it walk)")
	} else {
		fmt.Fprintf(w, "policy %s (contract: %s)\n", info.PolicyName, info.ContractSource)
	}
}

// finish prints what the loop did.
func finish(w io.Writer, asJSON bool, cfg *config, loop *control.Loop, udp *link.UDP, err error) error {
	var s control.Snapshot
	loop.Snapshot(&s)
	n := udp.Counters()
	guarded := showGuard(loop)
	sum := map[string]any{
		"frames": s.Stats.Sent, "ticks": s.Stats.Ticks, "missed": s.Stats.Missed, "states": s.Stats.States,
		"guard_trips": s.Stats.Trips + guarded.Trips, "guard": guarded, "send_errors": s.Stats.SendErrors,
		"rejected": n.RejectedTotal(), "foreign": n.Foreign,
		"policy_steps": s.Stats.Policy, "policy_late": s.Stats.LatePolicy,
		"loop_late_1ms":  s.Stats.Late,
		"loop_dt_p50_us": us(s.Stats.Jitter.Quantile(0.5)), "loop_dt_p99_us": us(s.Stats.Jitter.Quantile(0.99)),
		"loop_dt_p999_us": us(s.Stats.Jitter.Quantile(0.999)), "loop_dt_max_us": us(s.Stats.Jitter.MaxNs),
		"loop_p50_us": us(s.Stats.Lateness.Quantile(0.5)), "loop_p99_us": us(s.Stats.Lateness.Quantile(0.99)),
		"loop_p999_us": us(s.Stats.Lateness.Quantile(0.999)), "loop_max_us": us(s.Stats.Lateness.MaxNs),
		"rx_to_tx_p50_us": us(s.Stats.RxToTx.Quantile(0.5)), "rx_to_tx_p99_us": us(s.Stats.RxToTx.Quantile(0.99)),
		"policy_p50_us": us(s.Stats.PolicyStep.Quantile(0.5)), "policy_p99_us": us(s.Stats.PolicyStep.Quantile(0.99)),
		"fault": s.Verdict.Fault.String(), "mode": s.Mode.String(), "without_remote": cfg.Safety.WithoutRemote, "without_guard": cfg.Guard.Without,
	}
	if asJSON {
		_ = cli.PrintJSON(w, sum)
	} else {
		fmt.Fprintf(w, "clawagent: %d frames, %d ticks missed, loop late p50 %.1f p99 %.1f us, state to frame p50 %.1f us\n",
			s.Stats.Sent, s.Stats.Missed, sum["loop_p50_us"], sum["loop_p99_us"], sum["rx_to_tx_p50_us"])
	}
	return err
}

func us(ns int64) float64 { return float64(ns) / 1e3 }

// sportOff shows that the maker's own controller does not hold the robot.
func sportOff(ctx context.Context, cfg *config, sportIsOff bool, log *slog.Logger) error {
	r, err := link.ProbeSport(ctx, cfg.high(), time.Second)
	switch {
	case err != nil:
		return fmt.Errorf("sport mode could not be looked for: %w", err)
	case r.Result == link.SportOn:
		return fmt.Errorf("%w (mode %d): it would fall limp at the first frame. %s", control.ErrSportOn, r.Mode, link.LowLevelHelp)
	case r.Result == link.SportUnclear:
		return fmt.Errorf("something answers at %s, but not as a Go1 does: %s", cfg.high(), r.LastReject)
	}
	if r.Result == link.SportSilent && !cfg.low().Addr().IsLoopback() {
		if !sportIsOff {
			return fmt.Errorf("the high-level service at %s does not answer, which does not show that sport mode is off. %s Then start again with --sport-off, your word for it",
				cfg.high(), link.LowLevelHelp)
		}
		log.Warn("the high-level service does not answer, which does not show that sport mode is off; armed on a person's word", "high", cfg.high().String())
		return nil
	}
	return nil
}
