package main

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// noseUp is a body that somebody tips with its nose up, again and again, and that hangs still for two seconds between.
func noseUp(s *wire.LowState) {
	const periodMs, actMs = 3000, 1000
	angle := func(ms uint32) float64 {
		by := math.Sin(math.Pi * float64(max(int(ms%periodMs)-(periodMs-actMs), 0)) / actMs)
		return -0.45 * by * by
	}
	tip, speed := angle(s.Tick), (angle(s.Tick)-angle(s.Tick-2))/0.002
	hiss := float32(s.Tick%7) * 1e-5 // no sensor says the same all the time
	s.IMU.Quaternion = [4]float32{float32(math.Cos(tip / 2)), hiss, float32(math.Sin(tip / 2)), 0}
	s.IMU.Gyroscope = [3]float32{hiss, float32(speed), 0}
	s.IMU.Accelerometer = [3]float32{float32(-9.81 * math.Sin(tip)), hiss, float32(9.81 * math.Cos(tip))}
}

// TestFirstContactTellsWhatWasWrong: each try that was judged and not what was asked for is told, with what it showed, to people and to
// programs; what failed is named at the end.
func TestFirstContactTellsWhatWasWrong(t *testing.T) {
	robot := lyingRobot(t)
	robot.OnState(noseUp)
	args := []string{"--first-contact", "--set", "control.lockstep=true", "--skip", "roll_left", "--skip", "yaw_left", "--skip", "joints", "--skip", "feet", "--skip", "remote"}
	const why = "that was not it; The IMU turns about other axes than the body: asked for nose_down, the IMU says -y"

	d, r := doctor(t, robot.Addr(), append(args, "--set", "first_contact.dir="+t.TempDir())...)
	var told []string
	for line := range strings.Lines(r.stdout) {
		var e struct {
			Event string   `json:"event"`
			Step  string   `json:"step"`
			Text  string   `json:"text"`
			Try   int      `json:"try"`
			Names []string `json:"names"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch e.Event {
		case "note", "ask":
			told = append(told, e.Event)
		case "wrong":
			if e.Step != "nose_down" || e.Try != len(told)/2 || !slices.Equal(e.Names, []string{"imu_axes"}) || e.Text != why {
				t.Errorf("%+v", e)
			}
			told = append(told, e.Event)
		}
	}
	if want := []string{"note", "ask", "wrong", "ask", "wrong", "ask"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	f := d.find("first_contact")
	if f == nil || !strings.Contains(f.Text, "steps that failed: ") || !strings.Contains(f.Text, "nose_down; steps still open: roll_left, yaw_left, joints, feet, remote; kept in") {
		t.Errorf("%+v", f)
	}

	r = clawagent(t, append([]string{"doctor", "--robot", "udp://" + robot.Addr().String(), "--set", "first_contact.dir=" + t.TempDir()}, args...)...)
	for says, times := range map[string]int{firstcontact.Stand + "\n": 1, " 3/24 nose_down       " + why + "\n": 2, " 3/24 nose_down       once more: tip the nose down": 2, " 3/24 nose_down       -> failed: imu_axes\n": 1} {
		if n := strings.Count(r.stdout, says); n != times {
			t.Errorf("%d times %q, want %d, in\n%s", n, says, times, r.stdout)
		}
	}
}

// TestContactUndone: what keeps a robot from passing is told by what became of it, and by group where that is all of it.
func TestContactUndone(t *testing.T) {
	r := passedRecord()
	if got := undone(&r); got != "" {
		t.Errorf("of one that has passed: %q", got)
	}
	r.Results[firstcontact.NoseDown] = firstcontact.Failed
	r.Results[firstcontact.FirstJoint+1] = firstcontact.TimedOut
	for s := firstcontact.FirstFoot; s < firstcontact.RemoteStop; s++ {
		r.Results[s] = firstcontact.Skipped
	}
	r.Results[firstcontact.RemoteStop] = firstcontact.Failed
	r.Results[firstcontact.RemoteSticks] = firstcontact.Open
	if got, want := undone(&r), "steps that failed: nose_down, remote_stop; not seen in time: FR_thigh_joint; steps still open: feet, remote_sticks; "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestContactLiveLine: while something keeps a motion from being seen, the live line says what.
func TestContactLiveLine(t *testing.T) {
	var b bytes.Buffer
	for _, c := range []struct {
		st   firstcontact.Status
		says string
	}{
		{firstcontact.Status{Hint: firstcontact.HintLevel, Value: 0.2}, "let it hang level, as at the beginning; it is 12 degrees off"},
		{firstcontact.Status{Hint: firstcontact.HintStill}, "hold it still, its nose too"},
		{firstcontact.Status{Hint: firstcontact.HintBack, Value: -0.5}, "turn the nose back to where it was, 29 degrees to go"},
		{firstcontact.Status{Hint: firstcontact.HintSlow, Value: 0.16}, "10 degrees to go, hold it still there, and then be quicker"},
		{firstcontact.Status{Phase: firstcontact.Asking, Hint: firstcontact.HintOtherAxis}, "is asked to be tipped"},
		{firstcontact.Status{Phase: firstcontact.Asking, Moved: 1, Value: 0.2, Want: 0.25}, "turns about y by +11 of 14 degrees"},
	} {
		b.Reset()
		tell := teller{people: &b, live: true}
		if tell.showLive(firstcontact.NoseDown, &c.st); !strings.Contains(b.String(), c.says) || !strings.HasPrefix(b.String(), "\r") {
			t.Errorf("%+v: %q, want %q", c.st, b.String(), c.says)
		}
	}
}
