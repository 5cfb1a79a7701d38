package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	demoPoll     = 50 * time.Millisecond
	demoSteer    = 50 * time.Millisecond // 20 commands a second
	demoValid    = 400 * time.Millisecond
	demoListen   = 5 * time.Second // longest waits
	demoStand    = 10 * time.Second
	demoSit      = 10 * time.Second
	demoSilence  = 2 * time.Second // commands in a row that may fail for this long
	demoMinState = 20              // states before it stands
)

// demoAttempt is one walk, from lying to lying.
type demoAttempt struct {
	cfg       *demoConfig
	story     *story
	sit, damp context.Context // first and second Ctrl-C

	robot, agent *child
	api          *agentClient
	truth        *truthClient

	from, to float64 // s of the robot's time between which it was to walk; 0: it did not come to that
	fault    string  // name of the agent's latched fault
	ahead    bool    // both programs run ahead of ordinary ones
	lateMs   float64 // the agent's safety.loop_late_ms; 0: its own
}

// run makes the attempt and judges it. An error means that there is nothing to judge. No child survives it.
func (d *demoAttempt) run() (*demoResult, error) {
	defer func() {
		for _, c := range []*child{d.agent, d.robot} {
			if c != nil {
				c.kill()
			}
		}
	}()
	if err := d.start(); err != nil {
		return nil, errors.Join(err, d.shutDown())
	}
	failures := []string{}
	if err := d.walk(); err != nil {
		if d.sit.Err() != nil {
			err = fmt.Errorf("stopped by %w", context.Cause(d.sit))
			d.story.say("stopping: the robot sits down first (Ctrl-C again: damp at once)")
		}
		failures = append(failures, err.Error())
	}
	if err := d.shutDown(); err != nil {
		failures = append(failures, err.Error())
	}
	log, err := readRobotLog(d.cfg.logFile("robot.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("%s; %w", strings.Join(failures, "; "), err)
	}
	var agent agentSummary
	if err := d.agent.lines.summary(&agent); err != nil {
		failures = append(failures, "agent: "+err.Error())
	}
	result := judge(d.cfg, log, &agent, d.from, d.to)
	result.Fault, result.Ahead, result.LateMs = d.fault, d.ahead, d.lateMs
	result.Failures = append(failures, result.Failures...)
	result.OK = len(result.Failures) == 0
	return result, nil
}

// start starts both programs and waits until they are ready.
func (d *demoAttempt) start() (err error) {
	d.robot, err = startChild("clawsim robot", d.cfg.logFile("robot.err"), d.cfg.clawsim,
		"robot", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--log", d.cfg.logFile("robot.jsonl"), "--json")
	if err != nil {
		return err
	}
	var robot ready
	if err := d.robot.ready(d.sit, &robot); err != nil {
		return err
	}
	args := []string{"run", "--robot", "udp://" + robot.Low, "--http", "127.0.0.1:0", "--log", d.cfg.logFile("agent.jsonl"), "--json"}
	if d.cfg.policy != "" {
		args = append(args, "--policy", d.cfg.policy)
	}
	if !robot.Ahead { // nor will the agent
		d.lateMs = demoLoopLateMs
		args = append(args, "--set", fmt.Sprintf("safety.loop_late_ms=%d", demoLoopLateMs), "--set", fmt.Sprintf("guard.stale_ms=%d", demoLoopLateMs))
	}
	if d.agent, err = startChild("clawagent run", d.cfg.logFile("agent.err"), d.cfg.clawagent, args...); err != nil {
		return err
	}
	var agent struct {
		HTTP  string `json:"http"`
		Ahead bool   `json:"ahead"`
	}
	if err := d.agent.ready(d.sit, &agent); err != nil {
		return err
	}
	d.ahead = robot.Ahead && agent.Ahead
	if !d.ahead {
		d.story.say("%-13s no real-time rights: timing faults of a busy machine are likely; run as root or with CAP_SYS_NICE", "note")
	}
	if d.lateMs != 0 {
		d.story.say("%-13s therefore the agent may be late by %v ms here (safety.loop_late_ms, guard.stale_ms), which it may not be on a robot", "note", d.lateMs)
	}
	d.api, d.truth = newAgentClient(agent.HTTP), newTruthClient(robot.Control)
	d.story.say("%-13s virtual Go1 on udp://%s, agent on http://%s", "started", robot.Low, agent.HTTP)
	if d.cfg.policy == "" {
		d.story.say("%-13s none, so it will only stand (--policy FILE or POLICY=FILE makes it walk)", "policy")
	} else {
		d.story.say("%-13s %s (%s)", "policy", d.cfg.name, d.cfg.policy)
	}
	return nil
}

// walk is the story: lying, standing, walking, lying.
func (d *demoAttempt) walk() error {
	ctx := d.sit
	if err := d.api.post(ctx, "arm", struct{}{}); err != nil {
		return fmt.Errorf("arm: %w", err)
	}
	if err := d.until("states from the robot and its hand remote", demoListen, nil, func(s *agentState) bool {
		return s.Loop.States >= demoMinState && s.Remote.Present
	}); err != nil {
		return err
	}
	before, err := d.truth.status(ctx)
	if err != nil {
		return fmt.Errorf("robot: %w", err)
	}
	d.story.say("%-13s %.2f m above the floor", before.Posture, before.Pos[2])

	if err := d.stand(); err != nil {
		return fmt.Errorf("stand: %w", err)
	}
	if err := d.until("standing", demoStand, []string{"stand"}, func(s *agentState) bool { return s.Phase == "ready" && d.posture("standing up") == "standing" }); err != nil {
		return err
	}
	now, err := d.truth.status(ctx)
	if err != nil {
		return fmt.Errorf("robot: %w", err)
	}
	d.story.say("%-13s %.2f m", "standing", now.Pos[2])

	if d.cfg.policy == "" {
		err = d.hold()
	} else {
		err = d.drive()
	}
	if err != nil {
		return err
	}
	begin := now.Pos
	if now, err = d.truth.status(ctx); err != nil {
		return fmt.Errorf("robot: %w", err)
	}
	if d.cfg.policy != "" {
		d.story.say("%-13s %.1f m in %.0f s", "walked", math.Hypot(now.Pos[0]-begin[0], now.Pos[1]-begin[1]), d.to-d.from)
	}
	if err := d.api.mode(ctx, "sit"); err != nil {
		return fmt.Errorf("sit: %w", err)
	}
	if err := d.until("damping after it sat down", demoSit, []string{"sit", "damp"}, func(s *agentState) bool { d.posture("sitting down"); return s.Mode == "damp" }); err != nil {
		return err
	}
	if err := d.until("lying", demoSit, []string{"damp"}, func(*agentState) bool { return d.posture("sitting down") == "lying" }); err != nil {
		return err
	}
	if now, err = d.truth.status(ctx); err != nil {
		return fmt.Errorf("robot: %w", err)
	}
	d.story.say("%-13s %.2f m, damped", "lying", now.Pos[2])
	return nil
}

// stand asks for standing, which the agent refuses while it has too few fresh states.
func (d *demoAttempt) stand() error {
	for end := time.Now().Add(demoListen); ; {
		err := d.api.mode(d.sit, "stand")
		if refusal := new(agentRefusal); !errors.As(err, &refusal) || time.Now().After(end) {
			return err
		}
		if _, lookErr := d.look(nil); lookErr != nil {
			return lookErr
		}
		if err := d.pause(demoPoll); err != nil {
			return err
		}
	}
}

// posture is what physics says, and tells its height on the way.
func (d *demoAttempt) posture(what string) string {
	s, err := d.truth.status(d.sit)
	if err != nil { // the next look, or the end of the program, tells more
		return ""
	}
	d.story.now("%-13s %.2f m", what, s.Pos[2])
	return s.Posture
}

// until looks at the agent's state until ok, at most limit. A latched fault, or a mode that is not in modes (nil: any), is an error.
func (d *demoAttempt) until(what string, limit time.Duration, modes []string, ok func(*agentState) bool) error {
	end := time.Now().Add(limit)
	var last agentState
	for {
		s, err := d.look(modes)
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		if ok(&s) {
			return nil
		}
		last = s
		if time.Now().After(end) {
			return fmt.Errorf("no %s within %v: the agent is in mode %s, phase %q", what, limit, last.Mode, last.Phase)
		}
		if err := d.pause(demoPoll); err != nil {
			return err
		}
	}
}

// look is the agent's state, and an error when it is in none of the modes.
func (d *demoAttempt) look(modes []string) (agentState, error) {
	s, err := d.api.state(d.sit)
	switch {
	case err != nil && d.agent.ended():
		return s, d.agent.died()
	case err != nil:
		return s, err
	case s.Fault != nil:
		d.fault = s.Fault.Name
		return s, fmt.Errorf("the agent's judge acted (mode %s): %s: %s", s.Mode, s.Fault.Name, s.Fault.Title)
	}
	if modes != nil && !slices.Contains(modes, s.Mode) {
		return s, fmt.Errorf("the agent went to mode %s", s.Mode)
	}
	return s, nil
}

// pause waits, unless a program ends or somebody stops the demo.
func (d *demoAttempt) pause(t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-d.robot.done:
		return d.robot.died()
	case <-d.agent.done:
		return d.agent.died()
	case <-d.sit.Done():
		return context.Cause(d.sit)
	}
}

// drive walks for the duration under the command.
func (d *demoAttempt) drive() error {
	if err := d.api.mode(d.sit, "policy"); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	bar := d.story.bar(d.cfg.duration)
	defer bar.end()
	begin := time.Now()
	good := begin
	speed := 0.
	for next := begin; time.Since(begin) < d.cfg.duration; {
		switch err := d.steer(); {
		case err == nil:
			good = time.Now()
		case d.sit.Err() != nil:
			return context.Cause(d.sit)
		case time.Since(good) > demoSilence || d.fault != "":
			return fmt.Errorf("walking: %w", err)
		}
		if v, err := d.watch(); err == nil {
			speed += (v - speed) * 0.1 // steps sway it
			bar.at(time.Since(begin), speed)
		}
		next = next.Add(demoSteer)
		if err := d.pause(time.Until(next)); err != nil {
			return err
		}
	}
	_, err := d.watch()
	return err
}

// watch notes how long it has been walking, or standing, and looks how fast it moves forward, m/s.
func (d *demoAttempt) watch() (vx float64, err error) {
	s, err := d.truth.status(d.sit)
	if err != nil {
		return 0, err
	}
	if d.from == 0 {
		d.from = s.T
	}
	d.to = s.T
	return s.Velocity[0], nil
}

// steer sends one command. A refused one may have come too late on a busy machine, or the agent walks no more.
func (d *demoAttempt) steer() error {
	err := d.api.command(d.sit, d.cfg.command, demoValid)
	if refusal := new(agentRefusal); errors.As(err, &refusal) {
		if _, lookErr := d.look([]string{"policy"}); lookErr != nil {
			return lookErr
		}
	}
	return err
}

// hold stands for the duration: there is no policy.
func (d *demoAttempt) hold() error {
	bar := d.story.bar(d.cfg.duration)
	defer bar.end()
	for begin := time.Now(); time.Since(begin) < d.cfg.duration; {
		if _, err := d.look([]string{"stand"}); err != nil {
			return fmt.Errorf("standing: %w", err)
		}
		if v, err := d.watch(); err == nil {
			bar.at(time.Since(begin), v)
		}
		if err := d.pause(demoPoll); err != nil {
			return err
		}
	}
	_, err := d.watch()
	return err
}

// shutDown stops the agent, which sits the robot down if it has to, and then the robot.
func (d *demoAttempt) shutDown() error {
	var errs []error
	if d.agent != nil {
		errs = append(errs, d.agent.stop(d.damp))
	}
	if d.robot != nil {
		errs = append(errs, d.robot.stop(context.Background()))
	}
	return errors.Join(errs...)
}
