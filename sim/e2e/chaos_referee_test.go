package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// entry is a record of the robot's log, as far as the referee reads it (package sim/virtual says what each means).
type entry struct {
	T       float64    `json:"t"` // s
	Event   string     `json:"event"`
	Class   string     `json:"class"`
	Kp      float64    `json:"kp"`
	Kd      float64    `json:"kd"`
	Torques []float64  `json:"torques"`
	Target  []float64  `json:"target"`
	RxUs    int64      `json:"rx_us"` // CLOCK_MONOTONIC; 0 in lockstep
	Kind    string     `json:"kind"`
	On      bool       `json:"on"`
	Fault   string     `json:"fault"`
	Reason  string     `json:"reason"`
	Cause   string     `json:"cause"`
	Sender  string     `json:"sender"`
	Height  float64    `json:"height"`
	Tilt    float64    `json:"tilt"`
	Heading [2]float64 `json:"heading"` // m/s, along and across
	StallMs float64    `json:"stall_ms"`
	// noNumber: one of its numbers is none that JSON knows.
	noNumber bool
}

func parseEntry(line []byte) (e entry, err error) {
	if err = json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("the robot's log: %w: %s", err, line)
	}
	e.noNumber = e.Event == "frame" && bytes.Contains(line, []byte("null"))
	return e, nil
}

// logTail reads a robot's log while it grows.
type logTail struct {
	path   string
	offset int64
}

// next are the records that have come since.
func (l *logTail) next() (entries []entry, err error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, info.Size()-l.offset)
	if _, err := f.ReadAt(b, l.offset); err != nil {
		return nil, err
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	l.offset += int64(len(b))
	for line := range bytes.Lines(b) {
		e, err := parseEntry(line)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// act is something that a person, or this test in a person's place, does and that changes what may be sent. The robot's log shows
// when, by a mark: the n-th act of the story is the n-th mark.
type act string

const (
	arms       act = "arm"       // frames may be sent from now on
	stands     act = "stand"     // damp, then stand: torque may be sent from now on
	otherAgent act = "agent"     // another agent is started, with an address of its own
	strangers  act = "stranger"  // somebody else sends commands too, from another address
	watches    act = "something" // changes nothing: only says when
)

// mark is a fault that does nothing, but is in the log.
const mark = "kick,vx=0,vy=0,vz=0@now"

// outcome is how a robot ends.
type outcome string

const (
	walks outcome = "walking"  // under torque frames, at more than walkSpeed
	stays outcome = "standing" // under torque frames, still
	damps outcome = "damped"   // damping frames go on for ever
	quiet outcome = "quiet"    // nothing is sent once the agent has ended
)

const (
	chaosWalk  = 0.25  // m/s: with a hot motor commands are halved
	chaosStill = 0.15  // m/s
	mostKp     = 120.  // N·m/rad, of any policy or stand
	mostKd     = 10.   // N·m·s/rad
	dampingKd  = 3.    // N·m·s/rad, of the damping frame
	encoderRad = 2e-4  // the log has six digits
	torqueRoom = 2.    // N·m: encoders' zeros, speeds' noise, and what a push changes within two ticks
	stopsRad   = 0.151 // beyond the mechanical stops, where an encoder may still say that it is
	settleS    = 0.1   // after a fault that shows the agent what is not so
	closing    = 1.    // s, the end of a log by which its outcome is judged
	stampUs    = 1000  // of the kernel's stamps, which are of the wall clock
	mostSaid   = 4     // of one kind
)

// harmless are the faults that leave true what the agent knows of angles and speeds of the joints, and when.
var harmless = []string{"push", "kick", "friction", "battery", "cells", "cells_missing", "foreign_state", "temperature", "temperature_ramp", "remote_absent", "remote_buttons",
	"remote_sticks", "foot_force_zero", "foot_force_offset", "foot_force_stuck", "imu_stuck", "short_state", "long_state", "empty_state", "duplicate_state"}

// referee reads a robot's log, record by record, and says what should not have been. It knows nothing of the agent but its story.
type referee struct {
	story    []act
	lockstep bool // angles are those of the tick before

	marks   int
	armed   bool
	mayPush bool // torque may be sent
	class   string
	since   float64 // s, of class
	ours    string  // the agent's address
	sender  string  // of the newest frame
	moved   bool    // another agent may come from another address
	others  bool    // frames of strangers are no mistake of ours
	// strangeAt is when the first of those came, s; 0: none has.
	strangeAt float64
	edge      [go1.Joints][2]float64 // rad, the furthest that a target may be
	untrue    int                    // faults in force that make the agent's view of the joints untrue
	trueAt    float64                // s
	corrupt   bool                   // frames are damaged on their way
	// corruptTo: s, those that were may be refused until then.
	corruptTo float64
	frames    []float64 // s, of the newest ones
	states    []entry   // the newest ones
	tilt      float64   // rad, the largest
	up        bearing   // before the first stop
	went      []pace    // at each state
	stallMs   float64   // the longest of the robot's own program
	torques   int       // frames
	frameUs   int64     // when the newest came, CLOCK_MONOTONIC
	endedUs   int64     // when the agent had ended from which no more may come, likewise
	stops     []stop    // each time that damping followed torque
	t         float64   // s, of the newest record
	torque    entry     // newest torque frame
	said      []string
	kinds     map[string]int
}

// bearing is what became of a robot's trunk.
type bearing struct {
	tilt float64 // rad, the largest
	fell bool
}

// pace is how fast it went along its heading.
type pace struct{ t, v float64 }

// stop is a damping frame behind a torque frame.
type stop struct {
	torqueUs, dampUs int64 // when they came
	t                float64
}

func (r *referee) say(kind, format string, a ...any) {
	if r.kinds == nil {
		r.kinds = map[string]int{}
	}
	if r.kinds[kind]++; r.kinds[kind] <= mostSaid {
		r.said = append(r.said, fmt.Sprintf("%.3f s: %s: ", r.t, kind)+fmt.Sprintf(format, a...))
	}
}

// see takes one record.
func (r *referee) see(e *entry) {
	r.t = e.T
	switch e.Event {
	case "fault":
		r.fault(e)
	case "frame":
		r.frame(e)
	case "command":
		r.from(e)
	case "sender":
		r.from(e)
	case "reject":
		if e.Reason != "dropped" && !r.corrupt && !(e.T < r.corruptTo) {
			r.say("refused", "the robot refuses a datagram of ours: %s", e.Reason)
		}
	case "state":
		r.tilt = max(r.tilt, e.Tilt)
		if len(r.stops) == 0 {
			r.up.tilt = max(r.up.tilt, e.Tilt)
		}
		r.went = append(r.went, pace{e.T, e.Heading[0]})
		r.states = append(r.states, *e)
		for r.states[0].T < e.T-closing {
			r.states = r.states[1:]
		}
	case "stall":
		r.stallMs = max(r.stallMs, e.StallMs)
	case "fall":
		if len(r.stops) == 0 {
			r.up.fell = true
		}
	case "limp":
		if !strings.Contains(e.Cause, "sport") {
			r.say("limp", "the motors let go: %s", e.Cause)
		}
	case "error":
		r.say("physics", "the robot's physics broke")
	}
}

func (r *referee) fault(e *entry) {
	if e.Fault == mark {
		if e.On {
			r.marked()
		}
		return
	}
	if slices.Contains(harmless, e.Kind) {
		return
	}
	if e.Kind == "corrupt_command" { // the last of its frames is refused when it is over
		r.corrupt, r.corruptTo = e.On, e.T+settleS
	}
	if r.trueAt = e.T + settleS; e.On {
		r.untrue++
	} else {
		r.untrue--
	}
}

func (r *referee) marked() {
	if r.marks++; r.marks > len(r.story) {
		r.say("story", "%d marks, %d acts", r.marks, len(r.story))
		return
	}
	switch r.story[r.marks-1] {
	case arms:
		r.armed = true
	case stands:
		r.mayPush = true
	case otherAgent:
		r.moved = true
	case strangers:
		r.others = true
	}
}

// from takes the sender of a frame.
func (r *referee) from(e *entry) {
	if r.sender = e.Sender; e.Sender == r.ours {
		return
	}
	switch {
	case r.ours == "" || r.moved:
		r.ours, r.moved = e.Sender, false
	case !r.others:
		r.say("address", "frames come from %s, before from %s", e.Sender, r.ours)
		r.ours = e.Sender
	case r.strangeAt == 0:
		r.strangeAt = e.T
	}
}

func (r *referee) frame(e *entry) {
	if r.sender != r.ours {
		return // a stranger's
	}
	r.frames, r.frameUs = append(r.frames, e.T), e.RxUs
	for r.frames[0] < e.T-closing {
		r.frames = r.frames[1:]
	}
	if !r.armed {
		r.say("idle", "a frame of class %s before anybody armed", e.Class)
	}
	if e.noNumber {
		r.say("no number", "a frame of class %s", e.Class)
	}
	was := r.class
	if e.Class != was {
		r.class, r.since = e.Class, e.T
	}
	switch e.Class {
	case "torque":
		r.torques++
		if !r.mayPush {
			r.say("torque", "a torque frame (kp %g) without a person's stand since the damping of %.3f s", e.Kp, r.lastStop())
		}
		r.limits(e, was != "torque")
		r.torque = *e
	case "damping":
		if e.Kp != 0 || e.Kd != dampingKd {
			r.say("damping", "a damping frame with kp %g, kd %g", e.Kp, e.Kd)
		}
		if was == "torque" {
			r.mayPush = false
			r.stops = append(r.stops, stop{r.torque.RxUs, e.RxUs, e.T})
		}
	default:
		r.say("class", "a frame of class %s", e.Class)
	}
}

func (r *referee) lastStop() float64 {
	if len(r.stops) == 0 {
		return math.Inf(-1)
	}
	return r.stops[len(r.stops)-1].t
}

// limits judges a torque frame's numbers. A target may lie outside its range only where the joint was, and from there move inwards.
func (r *referee) limits(e *entry, first bool) {
	if len(e.Target) != go1.Joints || len(e.Torques) != go1.Joints {
		r.say("log", "a frame of %d targets and %d torques", len(e.Target), len(e.Torques))
		return
	}
	if !(e.Kp <= mostKp && e.Kd <= mostKd && e.Kp >= 0 && e.Kd >= 0) {
		r.say("gains", "kp %g, kd %g", e.Kp, e.Kd)
	}
	for i, q := range e.Target {
		lo, hi := float64(go1.TargetLower[i]), float64(go1.TargetUpper[i])
		edge := &r.edge[i]
		if first {
			*edge = [2]float64{min(lo, float64(go1.StopLower[i])-stopsRad), max(hi, float64(go1.StopUpper[i])+stopsRad)}
		}
		if !(q >= edge[0]-encoderRad && q <= edge[1]+encoderRad) {
			r.say("target", "%s is told %g rad, outside %.3f..%.3f", go1.JointNames[i], q, edge[0], edge[1])
		}
		edge[0], edge[1] = max(edge[0], min(q, lo)), min(edge[1], max(q, hi))
		if most := float64(go1.TorqueMax[i]) + torqueRoom; r.lockstep && r.untrue == 0 && e.T > r.trueAt && !(math.Abs(e.Torques[i]) <= most) {
			r.say("too much", "%s is asked for %.1f N·m of %.1f", go1.JointNames[i], e.Torques[i], go1.TorqueMax[i])
		}
	}
}

// speed is the mean along the heading over the newest second, m/s.
func (r *referee) speed() (v float64) {
	for i := range r.states {
		v += r.states[i].Heading[0]
	}
	return v / float64(max(len(r.states), 1))
}

// ends judges the last second of the log; that it is quiet by the kernel's stamps, for when the robot's program looks at a frame is the
// machine's affair. fewest is how many frames must have come in it.
func (r *referee) ends(want outcome, fewest int) {
	if r.marks != len(r.story) {
		r.say("story", "%d marks, %d acts", r.marks, len(r.story))
	}
	if want == quiet {
		if late := r.frameUs - r.endedUs; late > stampUs {
			r.say("end", "a frame of class %s came %d us behind the agent's end", r.class, late)
		}
		return
	}
	n := 0
	for _, t := range r.frames {
		if t >= r.t-closing {
			n++
		}
	}
	if n < fewest {
		r.say("end", "%d frames in the last second, want %d", n, fewest)
	}
	if len(r.states) == 0 {
		r.say("end", "no state in the log")
		return
	}
	last, v := &r.states[len(r.states)-1], r.speed()
	got := outcome("under frames of class " + r.class)
	switch {
	case r.class == "damping":
		got = damps
	case r.class == "torque" && v >= chaosWalk:
		got = walks
	case r.class == "torque" && math.Abs(v) < chaosStill && last.Tilt < 0.3 && last.Height > 0.22:
		got = stays
	}
	if got != want {
		r.say("end", "it is %s since %.3f s at %.2f m/s, %.2f m high, tilt %.2f rad; want %s", got, r.since, v, last.Height, last.Tilt, want)
	}
}
