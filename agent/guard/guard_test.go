package guard_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

const stale = 20 * time.Millisecond

// refused says why a request changed nothing.
func refused(err error) control.Reason {
	var no *control.Refusal
	if errors.As(err, &no) {
		return no.Reason
	}
	return control.Accepted
}

// TestLoopStandsStill: the guard damps when the beat is older than 20 ms, once every 2 ms, and is quiet when the loop ticks again. From
// the latch on no torque frame leaves, until a person asks for damp and for stand.
func TestLoopStandsStill(t *testing.T) {
	r := newRig(t, stale).standing()
	r.halt()
	last, _ := r.robot.LastFrame()
	if last.Class != linktest.Torque || r.trips() != 0 {
		t.Fatalf("before: frames of %v, %d trips", last.Class, r.trips())
	}
	epoch := r.watch.Epoch()
	r.run(20)
	if n := len(r.since(last.Number)); n != 0 || r.trips() != 0 {
		t.Fatalf("%d frames and %d trips when the beat is 20 ms old", n, r.trips())
	}
	r.step()
	if n := len(r.since(last.Number)); n != 1 || r.trips() != 1 {
		t.Fatalf("%d frames and %d trips when the beat is 21 ms old", n, r.trips())
	}
	r.run(200)
	if n := len(r.since(last.Number)); n != 101 {
		t.Fatalf("%d frames in 200 ms", n)
	}
	var s guard.Status
	if !r.loop.Guard(&s) || !s.Latched || !s.Sending || s.Trips != 1 || s.Frames != 101 || s.DampedNs < s.LatchedNs || s.LatchedNs == 0 {
		t.Errorf("%+v", s)
	}
	if from := r.since(last.Number)[0].From; from != last.From {
		t.Errorf("damping comes from %v, the agent's frames from %v", from, last.From)
	}

	r.stopped = false
	from, frames := r.robot.Count(), r.guard.Report().Frames
	r.run(100)
	r.only(last.Number, 150)
	if r.snapshot().Mode != control.Damp || r.fault() != safety.GuardTripped || r.snapshot().Stats.Trips != 0 {
		t.Errorf("mode %v, fault %v, %d trips of the loop's own", r.snapshot().Mode, r.fault(), r.snapshot().Stats.Trips)
	}
	if n := r.guard.Report().Frames - frames; n > 1 || len(r.since(from)) > 51 {
		t.Errorf("the guard sent %d frames more beside the loop's", n)
	}
	if why := refused(r.mode(control.Stand)); why != control.Latched {
		t.Errorf("stand with the latch in force: %v", why)
	}
	r.must(r.mode(control.Damp))
	r.run(10)
	if r.fault() != safety.NoFault || r.watch.Epoch() == epoch || r.watch.Look() != guard.Free {
		t.Errorf("after damp: fault %v, epoch %x then %x", r.fault(), epoch, r.watch.Epoch())
	}
	r.only(last.Number, 150)
	from = r.robot.Count()
	r.must(r.mode(control.Stand))
	r.run(200)
	if r.robot.Count(linktest.Torque) == 0 || r.since(from)[len(r.since(from))-1].Class != linktest.Torque {
		t.Error("re-armed, and no torque frame leaves")
	}

	// The second time is as the first.
	r.halt()
	r.run(40)
	from = r.robot.Count()
	r.run(40)
	r.only(from, 20)
	r.stopped = false
	r.run(10)
	r.only(from, 20)
	if r.trips() != 2 || r.fault() != safety.GuardTripped {
		t.Errorf("%d trips, fault %v", r.trips(), r.fault())
	}
}

// TestLongHold: the guard has taken the robot's states for more than the two seconds after which a robot counts as silent. The loop goes
// on with damping all the same, whichever of the guard's two cycles came last: a robot that answers commands alone must not be left by both.
func TestLongHold(t *testing.T) {
	for _, stale := range []time.Duration{stale, stale + time.Millisecond} { // its frames leave in the loop's milliseconds, or between them
		r := newRig(t, stale).standing()
		r.halt()
		r.run(2500)
		r.stopped = false
		from, own := r.robot.Count(), r.snapshot().Stats.Sent
		r.run(100)
		r.only(from, 49)
		if n := r.snapshot().Stats.Sent - own; n < 49 {
			t.Errorf("stale %v: behind the hold the loop sent %d frames in 100 ms", stale, n)
		}
		if s := r.snapshot(); s.Mode != control.Damp || s.Verdict.Fault != safety.GuardTripped {
			t.Errorf("mode %v, fault %v", s.Mode, s.Verdict.Fault)
		}
	}
	// An earlier session's states say nothing.
	r := newRig(t, stale).standing()
	r.halt()
	r.run(100)
	if at := r.watch.UntilNs(); at < r.clock.now {
		t.Errorf("until %d, now %d", at, r.clock.now)
	}
	r.endAgent()
	next := connect(t, r.guard)
	if at := r.register(next, r.registration(stale)).UntilNs(); at != 0 || r.watch.UntilNs() != 0 {
		t.Errorf("a new session begins with %d, the old one has %d", at, r.watch.UntilNs())
	}
}

// TestLateLoopIsNoTrip: 18 ms late is a beat 20 ms old.
func TestLateLoopIsNoTrip(t *testing.T) {
	for _, c := range []struct {
		stale time.Duration
		ms    int
		trips uint64
	}{{stale, 20, 0}, {stale, 21, 1}, {guard.MinStale, 10, 0}, {guard.MinStale, 11, 1}, {guard.MaxStale, 50, 0}, {guard.MaxStale, 51, 1}} {
		r := newRig(t, c.stale).standing()
		r.halt()
		r.blind = true
		r.run(c.ms)
		r.blind = false
		r.guard.Step(r.clock.now, 0)
		if got := r.trips(); got != c.trips {
			t.Errorf("stale %v, %d ms behind the beat: %d trips, want %d", c.stale, c.ms, got, c.trips)
		}
	}
}

// TestOwnLateness: with the guard's time shorter than the judge's the loop's last look goes by it.
func TestOwnLateness(t *testing.T) {
	r := newRig(t, guard.MinStale).standing()
	r.blind = true
	held := false
	r.clock.onNow = func() {
		if r.watch.Window() && !held { // held up right before the last look
			held = true
			r.clock.now += 10e6
		}
	}
	r.onSend = func(send func() error) error {
		if r.watch.Window() {
			t.Error("the window is open for a damping frame: stopped there, the agent would be killed for nothing")
		}
		return send()
	}
	from := r.robot.Count()
	r.run(2)
	r.only(from, 1)
	if s := r.snapshot(); s.Mode != control.Damp || s.Verdict.Fault != safety.LoopLate || s.Stats.Trips != 1 {
		t.Errorf("mode %v, fault %v, %d trips", s.Mode, s.Verdict.Fault, s.Stats.Trips)
	}
}

// TestLatchBehindTheWindow: the guard latches when the window is open and the loop has not looked yet: the look must see it.
func TestLatchBehindTheWindow(t *testing.T) {
	r := newRig(t, stale).standing()
	r.clock.onNow = func() {
		if !r.watch.Window() {
			return
		}
		r.clock.onNow = nil
		r.endAgent() // needs no old beat, so the loop's own lateness says nothing
		r.guard.Step(r.clock.now, 0)
	}
	from := r.robot.Count()
	r.run(2)
	if r.clock.onNow != nil {
		t.Fatal("the window was never open when the loop read its clock")
	}
	r.only(from, 1)
	if r.fault() != safety.GuardTripped || r.watch.Window() {
		t.Errorf("fault %v, window open: %v", r.fault(), r.watch.Window())
	}
}

// TestStoppedWithinTheWindow: an agent that stands still between its last look and the kernel cannot show that its frame will not leave
// later. It is killed, and damping begins when it is gone, or soon. The latch has taken effect when it is gone, or out of its window, as one
// is that the kernel would not kill and that goes on: not before.
func TestStoppedWithinTheWindow(t *testing.T) {
	for _, c := range []struct {
		name string
		gone bool
		err  error // of the kill
		want [2]uint64
	}{
		{"dies", true, nil, [2]uint64{1, 0}}, {"does not die yet", false, nil, [2]uint64{1, 0}},
		{"may not be killed", false, unix.EPERM, [2]uint64{0, 1}}, {"has just ended", true, unix.ESRCH, [2]uint64{1, 0}},
	} {
		gone := c.gone
		r := newRig(t, stale).standing()
		r.killErr = c.err
		from := r.robot.Count()
		var at []uint64 // damping frames after each cycle behind the kill
		r.onSend = func(func() error) error {
			r.onSend = nil
			r.stopped = true
			for range 19 {
				r.step()
			}
			if len(r.killed) != 0 {
				t.Error("killed before its beat was old")
			}
			for range 9 {
				if len(r.killed) == 1 && gone && !r.guard.Gone() {
					r.endAgent()
				}
				r.step()
				rep := r.guard.Report()
				if at = append(at, rep.Frames); (rep.LatchedNs != 0) != r.guard.Gone() {
					t.Errorf("%s: %d cycles behind the kill the latch is in force since %d", c.name, len(at), rep.LatchedNs)
				}
			}
			return errors.New("the process is dead")
		}
		r.run(2)
		rep := r.guard.Report()
		if len(r.killed) != 1 || rep.Killed != c.want[0] || rep.KillErrors != c.want[1] || rep.Trips != 1 {
			t.Fatalf("%s: killed %v, report %+v", c.name, r.killed, rep)
		}
		if want := 5; gone && at[2] == 0 || !gone && (at[want-1] != 0 || at[want+1] == 0) {
			t.Errorf("gone %v: damping frames by cycle: %v", gone, at)
		}
		r.only(from, 1)
		r.run(1) // the window is closed
		if rep = r.guard.Report(); rep.LatchedNs == 0 || (rep.DampedNs >= rep.LatchedNs) != gone {
			t.Errorf("%s: latched at %d, damped at %d", c.name, rep.LatchedNs, rep.DampedNs)
		}
		var s guard.Status
		if r.loop.Guard(&s); s.KillErrors != c.want[1] || s.LatchedNs != rep.LatchedNs {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

// TestLatchesOfASession: a next agent's status tells of no latch before its own. Of an agent that has ended, the newest is in force, also
// where the guard had not looked again before somebody came to take its place.
func TestLatchesOfASession(t *testing.T) {
	r := newRig(t, stale).standing()
	r.killErr = unix.EPERM
	r.onSend = func(func() error) error { // it stands still within the window
		r.onSend = nil
		r.stopped = true
		for range 40 {
			r.step()
		}
		return errors.New("the process is dead")
	}
	r.loop.Tick(r.clock.now)
	r.watch.Open() // dead: nothing has closed it
	if rep := r.guard.Report(); rep.Trips != 1 || rep.LatchedNs != 0 || rep.DampedNs == 0 {
		t.Fatalf("%+v", rep)
	}
	r.endAgent()
	next := connect(t, r.guard)
	done := make(chan error, 1)
	go func() { done <- next.Take(r.robot.Addr()) }()
	for r.guard.Report().AgentPID != 0 {
		time.Sleep(50 * time.Microsecond)
	}
	r.guard.Step(r.clock.now, 0) // it finds the session changed at once
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if rep := r.guard.Report(); rep.LatchedNs == 0 || rep.DampedNs == 0 {
		t.Errorf("the latch of the agent that has ended is in force since %d, damped at %d", rep.LatchedNs, rep.DampedNs)
	}
	w := r.register(next, r.registration(stale))
	var s guard.Status
	if w.Status(&s); s.LatchedNs != 0 || s.DampedNs != 0 || s.Trips != 0 {
		t.Errorf("the next agent is told %+v", s)
	}
	if rep := r.guard.Report(); rep.LatchedNs != 0 || rep.DampedNs != 0 || rep.Trips != 1 {
		t.Errorf("the guard tells %+v", rep)
	}
}

// TestPreemptedWithinTheWindow: a loop whose thread is of ordinary priority may have lost its core between the last look and the kernel.
// It is healthy, and gets longer than one that runs before all others. So does one whose thread is none of its process's by this PID
// namespace's numbers, whatever runs first under that number.
func TestPreemptedWithinTheWindow(t *testing.T) {
	for _, c := range []struct {
		calm   bool
		other  bool  // the thread that the agent names
		us     int64 // from the latch until the window closes
		killed int
	}{
		{false, false, 150, 0}, {false, false, 250, 1}, {true, false, 250, 0}, {true, false, 3950, 0}, {true, false, 4050, 1},
		{false, true, 250, 0}, {false, true, 3950, 0}, {false, true, 4050, 1},
	} {
		r := newRig(t, stale).standing()
		r.calm = c.calm
		if c.other {
			r.watch.Thread(os.Getppid())
			r.guard.Supervised()
		}
		from := int64(0)
		r.onSend = func(func() error) error {
			r.onSend = nil
			r.clock.onSleep = func() { // the guard waits for the window
				if from == 0 {
					from = r.clock.now
				}
				if r.clock.now-from >= c.us*1e3 {
					r.watch.Shut()
				}
			}
			for range 22 {
				r.guard.Step(r.clock.now+1e6, 0)
				r.clock.now += 1e6
			}
			r.clock.onSleep = nil
			return errors.New("held up")
		}
		r.run(2)
		if len(r.killed) != c.killed || r.trips() != 1 || r.thread > 0 == c.other {
			t.Errorf("%+v: killed %v, %d trips, asked about thread %d", c, r.killed, r.trips(), r.thread)
		}
	}
}

// TestWindowCloses: a frame that is on its way when the guard latches leaves before the first damping frame, and nobody is killed.
func TestWindowCloses(t *testing.T) {
	r := newRig(t, stale).standing()
	from := r.robot.Count()
	r.onSend = func(send func() error) error {
		r.onSend = nil
		r.clock.onSleep = func() { // the guard waits for the window
			r.clock.onSleep = nil
			if r.watch.Look() != guard.Tripped {
				t.Error("the guard looks at the window before it has latched")
			}
			if err := send(); err != nil {
				t.Error(err)
			}
			if !r.robot.Await(from+1, patience) {
				t.Error("the frame does not arrive")
			}
			r.watch.Shut()
		}
		for range 22 {
			r.guard.Step(r.clock.now+1e6, 0)
			r.clock.now += 1e6
		}
		return nil
	}
	r.run(2)
	r.halt()
	r.run(10)
	frames := r.since(from)
	if len(r.killed) != 0 || r.trips() != 1 || len(frames) < 3 || frames[0].Class != linktest.Torque {
		t.Fatalf("killed %v, %d trips, %d frames", r.killed, r.trips(), len(frames))
	}
	r.only(from+1, 2)
	if at := r.guard.Report().LatchedNs; frames[0].AtNs == 0 || at == 0 {
		t.Errorf("latched at %d", at)
	}
	// What comes next finds the latch.
	r.stopped = false
	r.run(4)
	r.only(from+1, 3)
	if r.watch.Window() {
		t.Error("the window stays open")
	}
}

// TestWindowIsOpenWhileAFrameLeaves, and at no other time; damping needs none.
func TestWindowIsOpenWhileAFrameLeaves(t *testing.T) {
	r := newRig(t, stale).armed()
	var open, shut int
	r.onSend = func(send func() error) error {
		if r.watch.Window() {
			open++
		} else {
			shut++
		}
		return send()
	}
	r.run(20)
	if open != 0 || shut != 10 {
		t.Errorf("damping: open at %d frames, shut at %d", open, shut)
	}
	r.must(r.mode(control.Stand))
	open, shut = 0, 0
	for range 10 {
		r.run(2)
		if r.watch.Window() {
			t.Fatal("open between two ticks")
		}
	}
	if open != 10 || shut != 0 {
		t.Errorf("torque: open at %d frames, shut at %d", open, shut)
	}
	r.onSend = func(func() error) error { return errors.New("no route") }
	r.run(2)
	if r.watch.Window() {
		t.Error("open behind a frame that could not be sent")
	}
}

// TestAgentIsGone: the end of its connection is the end of all its threads, so there is nothing to wait for.
func TestAgentIsGone(t *testing.T) {
	r := newRig(t, stale).standing()
	r.halt()
	from := r.robot.Count()
	r.endAgent()
	r.step()
	if r.trips() != 1 {
		t.Fatalf("%d trips", r.trips())
	}
	r.run(20000)
	r.only(from, 10000)
	r.guard.Supervised()
	if rep := r.guard.Report(); rep.AgentPID == 0 || !rep.Armed || !rep.AgentGone {
		t.Errorf("%+v", rep)
	}
}

// TestIdleIsSilence: before it is armed, and behind an orderly end, nothing is sent, whatever becomes of the agent.
func TestIdleIsSilence(t *testing.T) {
	r := newRig(t, stale)
	r.run(20)
	r.halt()
	r.run(100)
	r.endAgent()
	r.run(100)
	if r.robot.Count() != 0 || r.trips() != 0 {
		t.Errorf("%d frames, %d trips", r.robot.Count(), r.trips())
	}

	r = newRig(t, stale).standing()
	r.loop.Stop()
	r.loop.Stop()
	for {
		r.ms++
		r.clock.now = 1e9 + r.ms*1e6
		if r.ms%2 == 0 && r.loop.Tick(r.clock.now) {
			break
		}
		r.guard.Step(r.clock.now, 0)
		r.settle()
	}
	r.watch.End() // what Run does last
	r.stopped = true
	from := r.robot.Count()
	r.run(100)
	r.endAgent()
	r.run(100)
	if r.robot.Count() != from || r.trips() != 0 {
		t.Errorf("%d frames behind the end, %d trips", r.robot.Count()-from, r.trips())
	}
	r.during(r.guard.Supervised)
	if rep := r.guard.Report(); rep.AgentPID != 0 {
		t.Errorf("the session is not over: %+v", rep)
	}
}

// TestStandIn: a loop that stands still while its frames give no torque loses nothing but its turn.
func TestStandIn(t *testing.T) {
	r := newRig(t, stale).armed()
	r.halt()
	from := r.robot.Count()
	r.run(100)
	r.only(from, 39)
	if rep := r.guard.Report(); !rep.Sending || rep.Latched || rep.Trips != 0 {
		t.Errorf("%+v", rep)
	}
	r.stopped = false
	r.run(50)
	if r.fault() != safety.NoFault || r.guard.Report().Sending {
		t.Errorf("fault %v, sending %v", r.fault(), r.guard.Report().Sending)
	}
	r.must(r.mode(control.Stand))
	r.run(200)
	if r.robot.Count(linktest.Torque) == 0 {
		t.Error("no torque")
	}
}

// TestSilentRobot: two seconds behind the last state the guard stops, knocks when sport mode is off, and ends when it is on.
func TestSilentRobot(t *testing.T) {
	r := newRig(t, stale).standing()
	r.halt()
	r.endAgent()
	r.run(100)
	r.robot.Mute(true)
	from := r.robot.Count()
	r.run(1990)
	r.only(from, 990)
	r.run(100)
	from = r.robot.Count()
	r.run(500)
	if n := len(r.since(from)); n != 0 || !r.guard.Report().Silent {
		t.Fatalf("%d frames to a silent robot", n)
	}
	r.guard.Knocks(r.clock.now + 10e6)
	r.run(100)
	r.only(from, 5)
	if n := len(r.since(from)); n > 6 {
		t.Errorf("%d frames of one knock", n)
	}
	// It answers the next.
	r.robot.Mute(false)
	r.guard.Knocks(r.clock.now + 10e6)
	from = r.robot.Count()
	r.run(1000)
	r.only(from, 490)
	r.guard.Over()
	from = r.robot.Count()
	r.run(100)
	if n := len(r.since(from)); n != 0 {
		t.Errorf("%d frames to a robot in sport mode", n)
	}
	r.during(r.guard.Supervised)
	if rep := r.guard.Report(); rep.AgentPID != 0 {
		t.Errorf("the session is not over: %+v", rep)
	}

	// A guard stays for ten minutes, or ten seconds where the robot's program has ended.
	for _, ends := range []bool{false, true} {
		r = newRig(t, stale).standing()
		r.halt()
		r.robot.Mute(true)
		r.endAgent()
		r.run(2100)
		if !r.guard.Report().Silent {
			t.Fatal("a silent robot is not seen to be")
		}
		if ends {
			r.robot.Close()
			r.ms += 9800
		} else {
			r.ms += 599_800
		}
		r.run(50)
		r.guard.Supervised()
		if rep := r.guard.Report(); rep.AgentPID == 0 {
			t.Errorf("ended %v: the session is over before its time", ends)
		}
		r.run(200)
		r.during(r.guard.Supervised)
		if rep := r.guard.Report(); rep.AgentPID != 0 {
			t.Errorf("ended %v: the session goes on for ever", ends)
		}
	}
}

// TestSportModeWasOn: what was found while the loop stood still ends with that. Once it ticks again it is guarded as before, in the same
// epoch too.
func TestSportModeWasOn(t *testing.T) {
	r := newRig(t, stale).armed()
	r.halt()
	r.run(100)
	r.guard.Over()
	from := r.robot.Count()
	r.run(100)
	if n := len(r.since(from)); n != 0 || r.guard.Report().Armed {
		t.Fatalf("%d frames to a robot in sport mode", n)
	}
	r.stopped = false
	r.run(40)
	if !r.guard.Report().Armed {
		t.Error("the loop ticks again and is not guarded")
	}
	r.must(r.mode(control.Damp))
	r.must(r.mode(control.Stand))
	r.run(100)
	r.halt()
	from = r.robot.Count()
	r.run(100)
	r.only(from, 35)
	r.guard.Over()
	r.stopped = false
	r.run(40)
	r.must(r.mode(control.Damp))
	r.must(r.mode(control.Stand))
	r.run(100)
	r.halt()
	from = r.robot.Count()
	r.run(100)
	r.only(from, 35)
	if r.trips() != 2 {
		t.Errorf("%d trips", r.trips())
	}
}

// TestRobotWasSilentBefore: the guard of a robot that has not answered for long sends it nothing, however its agent ends.
func TestRobotWasSilentBefore(t *testing.T) {
	r := newRig(t, stale).armed()
	r.robot.Mute(true)
	r.run(3000)
	r.halt()
	from := r.robot.Count()
	r.endAgent()
	r.run(100)
	if n := len(r.since(from)); n != 0 || !r.guard.Report().Silent {
		t.Errorf("%d frames", n)
	}

	// Nor one that has never answered, beyond the loop's 200 ms.
	r = newRig(t, stale)
	r.robot.Mute(true)
	r.must(r.ask(r.loop.Arm))
	r.run(100)
	r.halt()
	r.endAgent()
	r.run(110)
	from = r.robot.Count()
	r.run(100)
	if n := len(r.since(from)); n != 0 {
		t.Errorf("%d frames to a robot that has never answered", n)
	}
}

// TestGuardIsLost: without its beat for 100 ms the robot sits, and stands up only under a guard again.
func TestGuardIsLost(t *testing.T) {
	r := newRig(t, stale).standing()
	r.blind = true
	r.run(98)
	if r.fault() != safety.NoFault {
		t.Fatalf("after 98 ms: %v", r.fault())
	}
	r.run(8)
	if s := r.snapshot(); s.Mode != control.Sit || s.Verdict.Fault != safety.GuardLost || s.Verdict.Severity != safety.Sit || s.GuardAlive {
		t.Fatalf("mode %v, fault %v", s.Mode, s.Verdict.Fault)
	}
	from := r.robot.Count()
	r.run(2000)
	if s := r.snapshot(); s.Mode != control.Damp || len(r.since(from)) != 1000 {
		t.Errorf("mode %v, %d frames", s.Mode, len(r.since(from)))
	}
	r.must(r.mode(control.Damp))
	if why := refused(r.mode(control.Stand)); why != control.NoGuard {
		t.Errorf("stand without a guard: %v", why)
	}
	r.blind = false
	r.run(10)
	r.must(r.mode(control.Stand))
	if !r.snapshot().GuardAlive {
		t.Error("not alive")
	}

	// Another guard in its place is taken when the mode gives no torque, and guards from then on.
	old := r.watch
	r.guard = newGuard(t, r)
	r.client = connect(t, r.guard)
	r.watch = r.register(r.client, r.registration(stale))
	r.loop.SetGuard(r.watch)
	r.run(300) // the old one is not stepped any more
	if s := r.snapshot(); s.Mode != control.Sit || r.watch.Epoch() != 0 || old.Epoch() == 0 {
		t.Errorf("mode %v, epoch %x", s.Mode, r.watch.Epoch())
	}
	r.run(2000)
	r.must(r.mode(control.Damp))
	r.must(r.mode(control.Stand))
	r.run(100)
	r.halt()
	from = r.robot.Count()
	r.run(100)
	r.only(from, 35)
	if r.trips() != 1 {
		t.Errorf("%d trips", r.trips())
	}
	// What a lost guard has done is not forgotten.
	var first, then guard.Status
	r.loop.Guard(&first)
	r.guard = newGuard(t, r)
	r.client = connect(t, r.guard)
	r.loop.SetGuard(r.register(r.client, r.registration(stale)))
	if r.loop.Guard(&then); first.Trips != 1 || then.Trips != 1 || then.Frames != first.Frames || then.Latched {
		t.Errorf("%d trips and %d frames, under another guard %d and %d", first.Trips, first.Frames, then.Trips, then.Frames)
	}
}

// TestStalledMachine: when loop and guard stood still together, the guard is not lost.
func TestStalledMachine(t *testing.T) {
	r := newRig(t, guard.MaxStale).armed()
	r.halt()
	r.blind = true
	r.run(1000)
	r.stopped = false
	r.run(2) // the loop is the first to run again
	r.blind = false
	r.run(10)
	if s := r.snapshot(); s.Verdict.Fault != safety.NoFault || !s.GuardAlive {
		t.Errorf("fault %v, guard alive %v", s.Verdict.Fault, s.GuardAlive)
	}
}

// TestForeign: an agent whose robot another one has taken sends nothing at all.
func TestForeign(t *testing.T) {
	r := newRig(t, stale).standing()
	r.endAgent() // its connection only; the loop goes on
	r.run(10)
	if r.fault() != safety.GuardTripped {
		t.Fatalf("fault %v", r.fault())
	}
	r.taken(true)
	r.run(2)
	from := r.robot.Count()
	r.run(100)
	if s := r.snapshot(); s.Mode != control.Idle || len(r.since(from)) != 0 || r.watch.Look() != guard.Foreign {
		t.Errorf("mode %v, %d frames", s.Mode, len(r.since(from)))
	}
	r.must(r.ask(r.loop.Arm))
	r.run(100)
	if len(r.since(from)) != 0 {
		t.Errorf("armed again, %d frames beside the other agent's", len(r.since(from)))
	}
}

// TestForeignWithinTheTick: taken over between the tick's beginning and its frame.
func TestForeignWithinTheTick(t *testing.T) {
	r := newRig(t, stale).standing()
	r.clock.onNow = func() {
		if !r.watch.Window() {
			return
		}
		r.clock.onNow = nil
		r.endAgent()
		r.taken(true)
	}
	before := r.snapshot().Stats.Sent
	r.loop.Tick(r.clock.now)
	if s := r.snapshot(); r.clock.onNow != nil || s.Stats.Sent != before || s.Verdict.Fault != safety.AnotherSender {
		t.Errorf("the loop sent %d frames, fault %v", s.Stats.Sent-before, s.Verdict.Fault)
	}
	r.run(4)
	if s := r.snapshot(); s.Mode != control.Idle || s.Stats.Sent != before {
		t.Errorf("mode %v, %d frames", s.Mode, s.Stats.Sent-before)
	}
}

// TestNobody: an agent that its guard has let go, or whose guard says nothing, has nobody who would damp its robot. It damps by itself, and
// gets no torque until it has a guard again and a person has come.
func TestNobody(t *testing.T) {
	for _, within := range []bool{false, true} { // between two ticks, or between a tick's beginning and its frame
		r := newRig(t, stale).standing()
		let := func() {
			r.clock.onNow = nil
			r.endAgent() // its connection only; the loop goes on
			r.taken(false)
		}
		if within {
			r.clock.onNow = func() {
				if r.watch.Window() {
					let()
				}
			}
		} else {
			let()
		}
		from, sent := r.robot.Count(), r.snapshot().Stats.Sent
		r.run(200)
		r.robot.Await(from+100, patience) // the guard's own count went with its session
		r.only(from, 100)
		s := r.snapshot()
		if s.Mode != control.Damp || s.Verdict.Fault != safety.GuardLost || s.Verdict.Severity != safety.Damp || s.GuardAlive || s.Stats.Sent != sent+100 || r.watch.Look() != guard.Nobody {
			t.Errorf("within %v: mode %v, %v by %v, guard alive %v, %d frames", within, s.Mode, s.Verdict.Severity, s.Verdict.Fault, s.GuardAlive, s.Stats.Sent-sent)
		}
		if r.watch.Window() {
			t.Errorf("within %v: the window stays open", within)
		}
		r.must(r.mode(control.Damp))
		r.run(4)
		if why := refused(r.mode(control.Stand)); why != control.Latched {
			t.Errorf("within %v: stand without a guard: %v", within, why)
		}
		r.client = connect(t, r.guard)
		r.watch = r.register(r.client, r.registration(stale))
		r.loop.SetGuard(r.watch)
		r.run(4)
		if why := refused(r.mode(control.Stand)); why != control.Latched {
			t.Errorf("within %v: a new guard clears the latch: %v", within, why)
		}
		r.only(from, 100)
		r.must(r.mode(control.Damp))
		r.must(r.mode(control.Stand))
		r.run(100)
		if r.robot.Count(linktest.Torque) == 0 || r.fault() != safety.NoFault {
			t.Errorf("within %v: under a guard again, fault %v", within, r.fault())
		}
	}
}

// TestNoAllocation, in a tick with its window and in a cycle that damps.
func TestNoAllocation(t *testing.T) {
	r := newRig(t, stale).standing()
	r.robot.Close() // it would allocate meanwhile
	r.drop = true
	if n := testing.AllocsPerRun(8, func() { // the newest state stays fresh enough for torque
		r.ms += 2
		r.clock.now = 1e9 + r.ms*1e6
		r.loop.Tick(r.clock.now)
		r.guard.Step(r.clock.now, 0)
	}); n != 0 || r.windows != 9 {
		t.Errorf("%v allocations a tick, %d torque frames of 9", n, r.windows)
	}
	if n := testing.AllocsPerRun(500, func() { r.clock.now += 1e6; r.guard.Step(r.clock.now, 1e3) }); n != 0 || r.trips() != 1 || !r.guard.Report().Sending {
		t.Errorf("%v allocations a cycle that damps, %d trips", n, r.trips())
	}
}

// TestRunEndsTheEpoch: a robot that shows it is damped needs its guard no more. One that does not keeps it, whatever the reason.
func TestRunEndsTheEpoch(t *testing.T) {
	const cable, refused = "the cable is out", "frames are refused"
	for _, breaks := range []string{"", cable, refused} {
		r := newRig(t, stale)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		var broken atomic.Bool
		sent := uint64(0)
		r.onSend = func(send func() error) error {
			if broken.Load() && breaks == refused {
				return errors.New("no route")
			}
			r.robot.Mute(broken.Load() && breaks == cable)
			sent++
			if err := send(); err != nil {
				return err
			}
			if !r.robot.Await(sent, patience) {
				return errors.New("a frame is lost")
			}
			return nil
		}
		go func() { done <- r.loop.Run(ctx) }()
		if err := r.loop.Arm(ctx); err != nil {
			t.Fatal(err)
		}
		if r.watch.Epoch() == 0 {
			t.Error("armed without an epoch")
		}
		broken.Store(true)
		cancel()
		var err error
		select {
		case err = <-done:
		case <-time.After(patience):
			t.Fatal("does not end")
		}
		if confirmed := breaks == ""; (r.watch.Epoch() == 0) != confirmed || (err == nil) != confirmed {
			t.Errorf("%q: ended with %v, epoch %x", breaks, err, r.watch.Epoch())
		}
	}
}

// TestPanickingLoop: while its last damping frames leave it still beats, so the guard does not take its turn. It is disarmed when the
// robot has answered them; else the guard damps on.
func TestPanickingLoop(t *testing.T) {
	for _, answers := range []bool{true, false} {
		testPanickingLoop(t, answers)
	}
}

func testPanickingLoop(t *testing.T, answers bool) {
	r := newRig(t, stale)
	var beats []int64
	r.onSend = func(send func() error) error {
		if beats == nil {
			beats = []int64{}
			panic("told to")
		}
		beats = append(beats, r.watch.BeatNs())
		r.clock.now += 2e6
		if answers {
			return send()
		}
		return nil
	}
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		_ = r.loop.Run(context.Background())
	}()
	_ = r.loop.Arm(context.Background()) // answered, or the loop has ended meanwhile
	select {
	case p := <-done:
		if p != "told to" {
			t.Fatalf("ended with %v", p)
		}
	case <-time.After(patience):
		t.Fatal("does not end")
	}
	if len(beats) < 250 || (r.watch.Epoch() == 0) != answers {
		t.Errorf("%d damping frames, answered %v, epoch %x", len(beats), answers, r.watch.Epoch())
	}
	for i := 1; i < len(beats); i++ {
		if beats[i] != beats[i-1]+2e6 {
			t.Fatalf("frame %d left with a beat of %d, the one before with %d", i, beats[i], beats[i-1])
		}
	}
}
