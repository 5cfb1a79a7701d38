package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// Parts of a measurement.
const (
	benchWarmSteps   = 50
	benchWarmAtLeast = 5
	benchWarmTime    = time.Second
	// Memory is looked at and the bar drawn between segments of about this length, so that neither is
	// among what is counted.
	benchSegment = 100 * time.Millisecond
)

// benchRun is one measurement under way.
type benchRun struct {
	env           *mujoco.Env
	spec          rollout.Spec
	policy        rollout.Policy
	before, after *rollout.Step
	decision      *rollout.Decision
	ended         []int

	steps              int
	stepTime, actTime  time.Duration
	cpuTime            time.Duration // all threads' in Step
	mallocs            uint64        // objects that the process allocated meanwhile; the runtime's own few are among them
	contacts           int           // feet that touched the floor, all rows and steps
	terminated, tooOld int
}

// measure steps rows on threads and says what it took; nil when ctx ended before anything was
// measured.
func (s *benchSubject) measure(ctx context.Context, rows, threads int, bar *benchBar) (*benchFigures, error) {
	forgetPeak()
	cfg := s.cfg
	cfg.Rows, cfg.Threads = rows, threads
	env, err := mujoco.NewEnv(cfg)
	if err != nil {
		if s.file != nil {
			err = fmt.Errorf("%s: %w", s.flags.policy, err)
		}
		return nil, err
	}
	defer env.Close()
	spec := env.Spec()
	policy, closePolicy, err := s.newPolicy(&spec)
	if err != nil {
		return nil, err
	}
	defer closePolicy()
	r := &benchRun{env: env, spec: spec, policy: policy, before: rollout.NewStep(spec), after: rollout.NewStep(spec),
		decision: rollout.NewDecision(spec), ended: make([]int, 0, rows)}
	policy.Reset(nil)
	err = env.Reset(ctx, nil, r.before)
	if err == nil {
		err = r.warm(ctx, s.flags.steps > 0)
	}
	*r = benchRun{env: env, spec: spec, policy: policy, before: r.before, after: r.after, decision: r.decision, ended: r.ended}
	physics, around := env.Times()
	bad := env.BadRows()
	if err == nil {
		err = r.run(ctx, s.flags, bar)
	}
	if ctx.Err() == nil && err != nil {
		return nil, err
	}
	if r.steps == 0 {
		return nil, nil
	}
	physicsEnd, aroundEnd := env.Times()
	f := &benchFigures{Rows: rows, Threads: threads, Steps: r.steps, Seconds: r.stepTime.Seconds(), Fell: r.terminated, TimedOut: r.tooOld,
		Ended: r.terminated + r.tooOld, PhysicsBad: env.BadRows() - bad}
	n := float64(rows * r.steps)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / n }
	f.StepsPerS = n / f.Seconds
	f.PhysicsUs, f.AroundUs = us(physicsEnd-physics), us(aroundEnd-around)
	f.WaitingUs = max(0, float64(threads)*us(r.stepTime)-f.PhysicsUs-f.AroundUs)
	f.PolicyUs, f.CPUUs = us(r.actTime), us(r.cpuTime)
	f.AllocsPerStep = r.allocsPerStep()
	f.Contacts = float64(r.contacts) / n
	f.PeakMB, f.NowMB = memoryMB()
	return f, nil
}

// step lets the policy act and every row do one control step.
func (r *benchRun) step(ctx context.Context) error {
	start := time.Now()
	if err := r.policy.Act(r.before, r.decision); err != nil {
		return err
	}
	cpu, acted := cpuTime(), time.Now()
	if err := r.env.Step(ctx, r.decision.Action, r.after); err != nil {
		return err
	}
	r.actTime += acted.Sub(start)
	r.stepTime += time.Since(acted)
	r.cpuTime += cpuTime() - cpu
	r.steps++
	r.ended = r.ended[:0]
	for row := range r.spec.Rows {
		switch {
		case r.after.Terminated[row]:
			r.terminated++
			r.ended = append(r.ended, row)
		case r.after.TimedOut[row]:
			r.tooOld++
			r.ended = append(r.ended, row)
		}
		// What the solver has to do with, and what other simulators count: feet that reach into the floor,
		// whether they press on it or not.
		for leg := range go1.Legs {
			if r.env.State(row).FootPos[leg][2] < go1.FootRadius {
				r.contacts++
			}
		}
	}
	r.before, r.after = r.after, r.before
	if len(r.ended) > 0 {
		r.policy.Reset(r.ended)
	}
	return nil
}

// warm does steps that are not counted: memory is touched, caches and clocks are up, feet are down. Where what follows is a number of
// steps, all of them, so that the episodes are the same on a slow machine.
func (r *benchRun) warm(ctx context.Context, all bool) error {
	for i := range benchWarmSteps {
		if !all && i >= benchWarmAtLeast && r.stepTime+r.actTime > benchWarmTime {
			break
		}
		if err := r.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run measures for as long as the flags say.
func (r *benchRun) run(ctx context.Context, f *benchFlags, bar *benchBar) (err error) {
	runtime.GC()
	var before, after runtime.MemStats
	done := func() float64 {
		if f.steps > 0 {
			return float64(r.steps) / float64(f.steps)
		}
		return r.stepTime.Seconds() / f.seconds
	}
	for done() < 1 && err == nil {
		segment := r.stepTime
		runtime.ReadMemStats(&before)
		// Without a bar there is one segment: reading the counts stops the world, and waking from that
		// allocates an object.
		for err == nil && done() < 1 && (bar.bar == nil || r.stepTime-segment < benchSegment) {
			err = r.step(ctx)
		}
		runtime.ReadMemStats(&after)
		r.mallocs += after.Mallocs - before.Mallocs
		bar.show(done())
	}
	bar.next()
	return err
}

// allocsPerStep is the objects allocated for each step of all rows.
func (r *benchRun) allocsPerStep() float64 { return float64(r.mallocs) / float64(r.steps) }

// cpuTime is what all threads of this process have used, in user and system.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// forgetPeak begins a new peak of this process's memory, so that a measurement does not show the one
// before it. Where the kernel does not let it, the peak is of all so far.
func forgetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// memoryMB is this process's resident memory in MiB, its peak and now.
func memoryMB() (peak, now float64) {
	peak, now = orNaN(0, 0), orNaN(0, 0)
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return peak, now
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		var kb float64
		if name != "VmHWM" && name != "VmRSS" {
			continue
		}
		if _, err := fmt.Sscan(value, &kb); err != nil {
			continue
		}
		if name == "VmHWM" {
			peak = kb / 1024
		} else {
			now = kb / 1024
		}
	}
	return peak, now
}

// benchBar shows how far several measurements are; where nobody watches it does nothing.
type benchBar struct {
	bar  *progressbar.ProgressBar
	done int
}

// benchBarParts is the length of one measurement on the bar.
const benchBarParts = 100

func newBenchBar(w io.Writer, measurements int) *benchBar {
	b := &benchBar{}
	if isTerminal(w) {
		b.bar = progressbar.NewOptions(measurements*benchBarParts, progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription("measuring"), progressbar.OptionClearOnFinish())
	}
	return b
}

// show draws the bar with part, 0..1, of the present measurement done; a broken terminal does not
// stop it.
func (b *benchBar) show(part float64) {
	if b.bar != nil {
		_ = b.bar.Set(b.done*benchBarParts + int(min(part, 1)*benchBarParts))
	}
}

func (b *benchBar) next() { b.done++ }

func (b *benchBar) finish() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}
