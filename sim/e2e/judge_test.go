package e2e

import (
	"math"
	"slices"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

const (
	tickMs = 2. // of the loop, and a step of the robot
	after  = 10 // s without torque that a latched damping is watched for
	calm   = 60 // s in which a condition below its threshold must do nothing
)

// began is the time on the robot's clock, s, of the first state that the n-th of the robot's faults touched, counted from 0
// in the order in which they begin, the sticks aside.
func began(t *testing.T, recs []virtualtest.Record, kind string) float64 {
	t.Helper()
	for _, r := range recs {
		if r.Text("event") == "fault" && r.Text("kind") == kind && r["on"] == true {
			return float64(r.Tick()) / 1e3
		}
	}
	t.Fatalf("the robot's log knows no fault of kind %s", kind)
	return 0
}

// damped is the first damping frame behind torque after a time, as the robot received it: its time, s, and that of the last
// torque frame before it.
func damped(recs []virtualtest.Record, since float64) (at, torque float64, ok bool) {
	for _, r := range recs {
		if r.Text("event") == "command" && r.Text("class") == "damping" && r.Text("from") == "torque" && float64(r.Tick())/1e3 >= since-1e-9 {
			return float64(r.Tick()) / 1e3, r.Number("last_torque_tick") / 1e3, true
		}
	}
	return 0, 0, false
}

// torqueAfter finds anything but damping behind a time.
func torqueAfter(recs []virtualtest.Record, since float64) *virtualtest.Record {
	for _, r := range recs {
		if r.Text("event") == "command" && r.Number("t") > since+1e-9 && r.Text("class") != "damping" {
			return &r
		}
	}
	return nil
}

// speed is the mean speed along the heading over a span of the robot's log, m/s, and the number of its records.
func speed(recs []virtualtest.Record, from, to float64) (v float64, n int) {
	for _, r := range recs {
		if t := r.Number("t"); r.Text("event") == "state" && t >= from && t < to {
			v += r["heading"].([]any)[0].(float64)
			n++
		}
	}
	return v / float64(max(n, 1)), n
}

// walkedOn fails unless the robot walked at about vx under torque frames alone from from until before to: a test that runs to to ends
// the loop there, and the damping of that end may answer the very state of to.
func walkedOn(t *testing.T, recs []virtualtest.Record, from, to, vx float64) (v float64) {
	t.Helper()
	v, n := speed(recs, from, to)
	if want := (to - from) * 50; float64(n) < 0.98*want {
		t.Errorf("the robot's log has %d states of %.0f", n, want)
	}
	if math.Abs(v-vx) > 0.15 {
		t.Errorf("walked at %.3f m/s, want %v +- 0.15", v, vx)
	}
	for _, r := range recs {
		if at := r.Number("t"); at < from || at >= to {
			continue
		}
		switch r.Text("event") {
		case "fall", "limp", "physics":
			t.Errorf("while it should walk on: %v", r)
		case "command":
			t.Errorf("while it should walk on, frames of another class: %v", r)
		}
	}
	return v
}

// trip is a fault that must damp.
type trip struct {
	faults []string // begin at walk+2
	kind   string   // of the fault that counts; "": the first's
	atMs   float64  // age at which the act is due, from the last good state or the first bad one
	good   bool     // atMs counts from the last good state, 2 ms before the first that is missing
	cause  string
	joint  string
	args   []string // of the robot
	cut    bool     // a person's stop: severity cut, mode estop
	slack  float64  // ms beyond the two ticks, where the fault itself takes an unknown time to show
}

// testTrip walks, lets the fault happen and asserts that damping arrives within two ticks of its time, that no torque frame
// follows for 10 s and that the agent says why.
func testTrip(t *testing.T, c trip) {
	t.Helper()
	p := start(t, setup{faults: c.faults, robot: c.args})
	p.walk()
	w := p.walkedAt()
	p.runTo(w + 2 + (c.atMs+c.slack)/1e3 + after + 1)
	recs := p.records()
	if c.kind == "" {
		c.kind = kindOf(c.faults[0])
	}
	since := began(t, recs, c.kind)
	if c.good {
		since -= tickMs / 1e3
	}
	at, torque, ok := damped(recs, since)
	st := p.state()
	if !ok {
		t.Fatalf("%s: no damping frame arrived; the agent says mode %s, fault %q", c.faults, st.Mode, st.fault())
	}
	age := (at - since) * 1e3
	if latest := c.atMs + 2*tickMs + c.slack; age < c.atMs-1e-6 || age > latest+1e-6 {
		t.Errorf("first damping frame %.0f ms after, want %.0f..%.0f", age, c.atMs, latest)
	}
	if at-torque > tickMs/1e3*1.01 && !c.good && c.kind != "drop_command" {
		t.Errorf("last torque frame at %.3f s, damping only at %.3f s", torque, at)
	}
	if r := torqueAfter(recs, at); r != nil {
		t.Errorf("torque after damping: %v", *r)
	}
	if now := p.status(); now.T < at+after || now.LastTorque > int64(at*1e3) {
		t.Errorf("watched until %.3f s, torque frame at tick %d, damping since %.3f s", now.T, now.LastTorque, at)
	}
	mode, severity := "damp", "damp"
	if c.cut {
		mode, severity = "estop", "cut"
	}
	if st.Mode != mode || st.Severity != severity || st.fault() != c.cause {
		t.Errorf("state says mode %s, severity %s, fault %q; want %s, %s, %s", st.Mode, st.Severity, st.fault(), mode, severity, c.cause)
	}
	if c.joint != "" && (st.Fault == nil || st.Fault.Joint == nil || *st.Fault.Joint != c.joint+"_joint") {
		t.Errorf("state names joint %v, want %s", st.Fault, c.joint)
	}
	t.Logf("damped %.0f ms after (due %.0f): %s", age, c.atMs, st.fault())
}

func kindOf(fault string) string {
	for i, r := range fault {
		if r == ',' || r == '@' {
			return fault[:i]
		}
	}
	return fault
}

// calmly is a condition below its threshold.
type calmly struct {
	faults []string
	vx     float64  // m/s, what it walks at all the same; 0: 0.8
	warns  []string // warnings that are shown at the end
	silent []string // warnings that may not be
	args   []string // of the robot
}

// testCalm walks for 60 s with conditions below their thresholds, in which nothing may happen.
func testCalm(t *testing.T, c calmly) {
	t.Helper()
	if c.vx == 0 {
		c.vx = 0.8
	}
	p := start(t, setup{faults: c.faults, robot: c.args})
	p.walk()
	w := p.walkedAt()
	p.runTo(w + 2 + calm)
	st := p.state()
	recs := p.records()
	v := walkedOn(t, recs, w+2, w+2+calm, c.vx)
	for _, w := range c.warns {
		if !slices.Contains(st.Warnings, w) {
			t.Errorf("warnings are %v, want %s among them", st.Warnings, w)
		}
	}
	for _, w := range c.silent {
		if slices.Contains(st.Warnings, w) {
			t.Errorf("warns of %s below its limit", w)
		}
	}
	if st.Mode != "policy" || st.Phase != "walk" || st.fault() != "" || st.Severity != "none" {
		t.Errorf("after 60 s the agent says mode %s %s, severity %s, fault %q", st.Mode, st.Phase, st.Severity, st.fault())
	}
	for _, f := range c.faults {
		began(t, recs, kindOf(f)) // it was there at all
	}
	s := p.end()
	if s.Height > 0.2 || s.Falls != 0 || s.TorqueAfter != 0 {
		t.Errorf("sent to sit, the robot ended %.2f m high with %d falls and %d torque frames after the damping", s.Height, s.Falls, s.TorqueAfter)
	}
	t.Logf("walked %d s at %.3f m/s, warnings at the end %v", calm, v, st.Warnings)
}

// testSit walks, lets the fault happen and asserts that the robot stops within a second, lies down and is damped, in this order.
func testSit(t *testing.T, faults []string, atMs float64, cause string) *pair {
	t.Helper()
	const stop, lower = 1., 2. // s: zero velocity, then home and down
	p := start(t, setup{faults: faults})
	p.walk()
	w := p.walkedAt()
	p.runTo(w + 2 + atMs/1e3 + stop + lower + after + 1)
	recs := p.records()
	since := began(t, recs, kindOf(faults[0])) + atMs/1e3
	st := p.state()
	at, _, ok := damped(recs, w)
	if !ok {
		t.Fatalf("%s: no damping frame arrived; the agent says mode %s, fault %q", faults, st.Mode, st.fault())
	}
	if d := at - since; d < stop+lower-0.01 || d > stop+lower+2*tickMs/1e3+1e-6 {
		t.Errorf("damped %.3f s after the act was due, want %.3f", d, stop+lower)
	}
	if v, _ := speed(recs, since-atMs/1e3-0.3, since-atMs/1e3); math.Abs(v-0.8) > 0.2 {
		t.Errorf("just before, it walked at %.2f m/s", v)
	}
	if v, _ := speed(recs, since+stop-0.2, since+stop); math.Abs(v) > 0.2 {
		t.Errorf("a second after, it still walks at %.2f m/s", v)
	}
	if r := torqueAfter(recs, at); r != nil {
		t.Errorf("torque after damping: %v", *r)
	}
	if s := p.status(); s.Posture != "lying" || s.Falls != 0 {
		t.Errorf("it ended %s with %d falls", s.Posture, s.Falls)
	}
	if st.Mode != "damp" || st.Severity != "sit" || st.fault() != cause {
		t.Errorf("state says mode %s, severity %s, fault %q; want damp, sit, %s", st.Mode, st.Severity, st.fault(), cause)
	}
	t.Logf("sat down: damped %.3f s after the act was due: %s", at-since, st.fault())
	return p
}

// testHold walks, lets the fault happen and asserts that the policy lets go with the next tick: the legs go home in 0.15 s, stay
// there under torque for 10 s, and the robot stands.
func testHold(t *testing.T, faults []string, cause string) {
	t.Helper()
	p := start(t, setup{faults: faults, robot: []string{"--log-every-frame"}})
	p.walk()
	w := p.walkedAt()
	p.runTo(w + 2 + after + 1)
	recs := p.records()
	since := began(t, recs, kindOf(faults[0]))
	st := p.state()
	letGo := holds(t, recs, since)
	if st.Mode != "stand" || st.Phase != "hold" || st.Severity != "stand_hold" || st.fault() != cause {
		t.Errorf("state says mode %s %s, severity %s, fault %q; want stand hold, stand_hold, %s", st.Mode, st.Phase, st.Severity, st.fault(), cause)
	}
	if code, answer := p.post("mode", `{"mode":"policy"}`); code != 409 {
		t.Errorf("latched, and asked to walk on: %d %s", code, answer)
	}
	if s := p.status(); s.Falls != 0 || s.Posture != "standing" {
		t.Errorf("it ended %s with %d falls", s.Posture, s.Falls)
	}
	t.Logf("the policy let go %.0f ms after, at home by %.0f ms: %s", letGo[0], letGo[1], st.fault())
}

// holds asserts a stand hold in a log with every frame: from since on the legs are on their way home within three ticks, are
// there after holdMs more and stay, under torque. It gives both times in ms after since.
func holds(t *testing.T, recs []virtualtest.Record, since float64) (ms [2]float64) {
	t.Helper()
	const holdMs = 150.
	var last []any
	frames := 0
	ms[0] = (firstMove(recs, since) - since) * 1e3
	for _, r := range recs {
		at := (float64(r.Tick())/1e3 - since) * 1e3
		if r.Text("event") != "frame" || at < -1 || at > after*1e3 {
			continue
		}
		frames++
		if r.Text("class") != "torque" {
			t.Fatalf("frame of class %s %.0f ms after", r.Text("class"), at)
		}
		target := r["target"].([]any)
		if !slices.Equal(target, last) {
			ms[1] = at
		}
		last = target
	}
	if frames < after*500-1 {
		t.Errorf("%d frames in %d s", frames, after)
	}
	if ms[0] > 3*tickMs+1e-6 { // one more, as minimum jerk hardly moves in the first
		t.Errorf("the legs began to go home %.0f ms after", ms[0])
	}
	if ms[1] > holdMs+2*tickMs {
		t.Errorf("the last new target came %.0f ms after the state with the fault, want at most %.0f", ms[1], holdMs+2*tickMs)
	}
	for i, q := range go1.Home {
		if d := last[i].(float64) - float64(q); math.Abs(d) > 0.001 {
			t.Errorf("%s is held at %v, want home, %v", go1.JointNames[i], last[i], q)
		}
	}
	return ms
}

// twice names the two halves of a row.
func twice(t *testing.T, name string, above, below func(*testing.T)) {
	t.Helper()
	if above != nil {
		t.Run(name+"/above", func(t *testing.T) { t.Parallel(); above(t) })
	}
	if below != nil {
		t.Run(name+"/below", func(t *testing.T) { t.Parallel(); below(t) })
	}
}
