package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// showing is how a run is looked at; its functions are called on the goroutine of rollout.Run.
type showing struct {
	step   func(ctx context.Context, after *rollout.Step, last bool) error // after each Step
	finish func(ctx context.Context) error                                 // after a run that was not interrupted
	close  func()
	codec  string // of the video; "": none
}

// unseen is a run that nobody looks at.
var unseen = showing{
	step:   func(context.Context, *rollout.Step, bool) error { return nil },
	finish: func(context.Context) error { return nil },
	close:  func() {},
}

// checkShow refuses flags about looking that contradict each other or name no file that could be written.
func (f *playFlags) checkShow() error {
	if f.video != "" {
		if _, err := filmFormat(f.video); err != nil {
			return err
		}
	}
	switch {
	case f.view != "" && (f.video != "" || f.shot != ""):
		return cli.Usagef("--view is for people, --video and --shot run without: not both")
	case f.fpsSet && f.video == "":
		return cli.Usagef("--fps %v is of --video, which is not given", f.fps)
	case f.shot != "" && !strings.EqualFold(filepath.Ext(f.shot), ".png"):
		return cli.Usagef("--shot %s: want a name that ends in .png", f.shot)
	}
	return nil
}

// hello is what the page is told first of a run under spec.
func (f *playFlags) hello(spec *rollout.Spec) *hello {
	return &hello{
		Version: protoVersion, Policy: f.policyName(), Physics: f.physics, World: f.world, Fault: f.fault,
		Rows: min(f.rows, maxShown), AllRows: f.rows, Period: float64(spec.PolicyPeriodNs) / 1e9, Metrics: spec.Metrics,
		Command: map[string][2]float32{"vx": spec.Command.Vx, "vy": spec.Command.Vy, "wz": spec.Command.Wz},
		Robot:   helloRobot{go1.HipX, go1.HipY, go1.HipOffset, go1.ThighLen, go1.CalfLen, go1.FootRadius},
	}
}

// show opens what the flags ask for.
func (f *playFlags) show(ctx context.Context, cmd *cobra.Command, env *mujoco.Env) (showing, error) {
	spec := env.Spec()
	h := f.hello(&spec)
	switch {
	case f.view != "":
		return f.serve(ctx, cmd, env, &spec, h)
	case f.video != "" || f.shot != "":
		return f.film(ctx, env, &spec, h)
	}
	return unseen, nil
}

// serve opens the view for people.
func (f *playFlags) serve(ctx context.Context, cmd *cobra.Command, env *mujoco.Env, spec *rollout.Spec, h *hello) (showing, error) {
	hub, err := newHub(h)
	if err != nil {
		return unseen, err
	}
	l, open, err := listenView(f.view)
	if err != nil {
		return unseen, cli.Usage(err)
	}
	server, err := newViewServer(l, f.view, open)
	if err != nil {
		return unseen, errors.Join(err, l.Close())
	}
	server.hub = hub
	stop := server.start(ctx)
	fmt.Fprintf(cmd.ErrOrStderr(), "view: %s (time stands still until somebody looks; Ctrl-C ends it)\n", server.url())
	if open {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: everybody who reaches this machine can look, and steer the simulated robots")
	}
	if f.asJSON {
		if err := cli.PrintReady(cmd.OutOrStdout(), map[string]string{"view": server.url()}); err != nil {
			stop()
			return unseen, err
		}
	}
	st := newStage(env, spec, hub)
	return showing{step: st.show, finish: unseen.finish, close: stop}, nil
}

// film opens the view for a video and a screenshot.
func (f *playFlags) film(ctx context.Context, env *mujoco.Env, spec *rollout.Spec, h *hello) (showing, error) {
	h.Record = &recordPlan{Video: f.video != "", Format: "webm", Width: videoWidth, Height: videoHeight, FPS: f.fps, Every: 1}
	if f.video != "" {
		var err error
		if h.Record.Format, err = filmFormat(f.video); err != nil {
			return unseen, err
		}
		if h.Record.Every, err = picturesEvery(f.fps, spec.PolicyPeriodNs); err != nil {
			return unseen, err
		}
	}
	hub, err := newHub(h)
	if err != nil {
		return unseen, err
	}
	film, err := newFilm(ctx, newStage(env, spec, hub), h, f.video, f.shot)
	if err != nil {
		return unseen, err
	}
	show := showing{step: film.show, finish: film.finish, close: film.close}
	if f.video != "" {
		show.codec = film.rec.codec
	}
	return show, nil
}
