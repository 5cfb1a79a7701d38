package e2e

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

// student is the policy that ships, or the file that OPENCLAW_STUDENT names: what is about to.
func student(t *testing.T) string {
	t.Helper()
	path := os.Getenv("OPENCLAW_STUDENT")
	if path == "" {
		path = filepath.Join(contracttest.Root(t), "onnx", "policies", "student.onnx")
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s, the student that ships (or OPENCLAW_STUDENT=FILE)", path)
	}
	return path
}

// The walk of a student: a new command every few seconds.
const (
	studentSeconds = 60.
	commandSeconds = 4.  // of each command
	settleSeconds  = 1.5 // of them in which the robot may still change its velocity: the agent's ramp and a step
	afterWalk      = 2.  // from its first walking to the first command
)

// asks are the commands of one walk: uniform over the contract's range, and zero every fifth time.
func asks(spec [3][2]float32, seed uint64) (all [][3]float64) {
	draw := rand.New(rand.NewPCG(seed, 5))
	for i := range int(studentSeconds / commandSeconds) {
		var c [3]float64
		for k, r := range spec {
			c[k] = float64(r[0]) + draw.Float64()*float64(r[1]-r[0])
		}
		if i%5 == 4 {
			c = [3]float64{}
		}
		all = append(all, c)
	}
	return all
}

// TestStudent walks the student that ships for a minute of changing commands, given by the hand remote's sticks, with every frame and with
// 5 % of the frames lost each way. The robot's log says whether it fell and whether it did what it was told.
func TestStudent(t *testing.T) {
	path := student(t)
	file, err := contract.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	rng := [3][2]float32{file.Contract.Command.Vx, file.Contract.Command.Vy, file.Contract.Command.Wz}
	var full [3]float64 // m/s, m/s, rad/s at full stick
	for k, r := range rng {
		full[k] = math.Max(math.Abs(float64(r[0])), math.Abs(float64(r[1])))
	}
	for _, c := range []struct {
		name   string
		seed   uint64
		faults []string
	}{
		{"changing commands", 1, nil},
		{"other commands", 2, nil},
		{"5 % of the frames lost each way", 3, []string{"drop_state,p=0.05@walk", "drop_command,p=0.05@walk"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			commands := asks(rng, c.seed)
			faults := c.faults
			for i := range commands {
				stick := func(k int) float64 { // what the agent makes the command of
					if full[k] == 0 {
						return 0
					}
					x := commands[i][k] / full[k]
					if math.Abs(x) < 0.08 { // its dead zone
						commands[i][k] = 0
						return 0
					}
					return x
				}
				faults = append(faults, fmt.Sprintf("remote_sticks,ly=%.4f,lx=%.4f,rx=%.4f@walk+%g+%g", stick(0), -stick(1), -stick(2),
					afterWalk+commandSeconds*float64(i), commandSeconds))
			}
			p := start(t, setup{seed: c.seed, faults: faults, policy: path, agent: []string{
				"--set", fmt.Sprintf("control.remote_vx_m_s=%g", full[0]), "--set", fmt.Sprintf("control.remote_vy_m_s=%g", full[1]),
				"--set", fmt.Sprintf("control.remote_wz_rad_s=%g", full[2])}})
			p.walk()
			from := p.walkedAt() + afterWalk
			to := from + studentSeconds
			p.runTo(to)
			st := p.state()
			recs := p.records()
			if st.Mode != "policy" || st.fault() != "" {
				t.Errorf("after %v s the agent says mode %s, severity %s, fault %q", studentSeconds, st.Mode, st.Severity, st.fault())
			}
			states, judged := 0, 0
			var vel, yaw, tilt, power float64
			for _, r := range recs {
				at := r.Number("t")
				if at < from || at >= to-tickMs/1e3 { // the agent's end may answer the very last state
					continue
				}
				switch r.Text("event") {
				case "fall", "limp", "error":
					t.Errorf("while it should walk on: %v", r)
				case "command":
					t.Errorf("while it should walk on, frames of another class: %v", r)
				case "state":
					states++
					tilt, power = math.Max(tilt, r.Number("tilt")), power+r.Number("power")
					i := int((at - from) / commandSeconds)
					if at-from-commandSeconds*float64(i) < settleSeconds || i >= len(commands) {
						continue
					}
					judged++
					heading, v := r["heading"].([]any), r["vel"].([]any)
					vel += math.Hypot(heading[0].(float64)-commands[i][0], heading[1].(float64)-commands[i][1])
					yaw += math.Abs(v[2].(float64) - commands[i][2])
				}
			}
			vel, yaw = vel/float64(judged), yaw/float64(judged)
			// What walking means in training; a robot that stands is off by 0.5 m/s and 0.4 rad/s.
			if states < studentSeconds*49 || !(vel < 0.3) || !(yaw < 0.3) {
				t.Errorf("in %d of %v states off by %.3f m/s and %.3f rad/s on average, want less than 0.3 and 0.3", states, studentSeconds*50, vel, yaw)
			}
			s := p.end()
			if s.Falls != 0 || s.Height > 0.2 || s.TorqueAfter != 0 {
				t.Errorf("%d falls; sent to sit, it ended %.2f m high with %d torque frames after the damping", s.Falls, s.Height, s.TorqueAfter)
			}
			lost := func(n, of uint64) float64 { return 100 * float64(n) / float64(n+of) }
			if c.faults != nil && (lost(s.Dropped, s.Frames) < 3 || lost(s.Lost, s.Answered) < 3) {
				t.Errorf("%d commands and %d states were lost of %d: not 5 %%", s.Dropped, s.Lost, s.Frames)
			}
			t.Logf("%v s: off by %.3f m/s, %.3f rad/s, largest tilt %.2f rad, %.0f W, %d falls; %.1f %% of the commands and %.1f %% of the states lost, clamped %d, capped %d",
				studentSeconds, vel, yaw, tilt, power/float64(states), s.Falls, lost(s.Dropped, s.Frames), lost(s.Lost, s.Answered), st.Limited.Clamped, st.Limited.Capped)
		})
	}
}
