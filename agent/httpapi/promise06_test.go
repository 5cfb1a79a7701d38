package httpapi

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Promise 6, bad input never becomes motion, is five tests, of which OPENCLAW_SOAK=6 runs the full count:
//
//	Bodies     each body of the corpus: 400, and what is wrong is named
//	Mutated    a corpus changed at random, to every route: what is taken means what another decoder says it means
//	Gate       the real loop under such commands, a wild policy and wild states: the robot's frames stay within the limits
//	Slow, Huge 200 slow connections, bodies of 64 MiB: refused, and memory grows by less than 10 MiB
//	Fuzz       go test -fuzz of each decoder, ten minutes in all; the full count only

// TestPromise06Mutated sends mutated bodies to every route. A case is 3000.
func TestPromise06Mutated(t *testing.T) {
	promise.New(t, 6, 1, 300).Run(t, func(t *testing.T, seed uint64) map[string]any {
		random := rand.New(rand.NewPCG(seed, 6))
		f := &fakeAgent{}
		f.snap.NowNs = 10e9
		r := start(t, f)
		r.quick("arm", "{}")
		f.taken()
		before := residentBytes(t)
		all := append(slices.Clone(badBodies), goodBodies...)
		const bodies = 3000
		taken := map[string]int{}
		for range bodies {
			b := all[random.IntN(len(all))]
			if random.IntN(3) > 0 {
				b = goodBodies[random.IntN(len(goodBodies))]
			}
			body := mutate(random, b.body)
			a := r.quick(b.path, body)
			calls := f.taken()
			switch {
			case a.status == 200 && calls != "":
				taken[b.path]++
				if want, err := asks(b.path, []byte(body)); err != nil || calls != want {
					t.Fatalf("%s %q: %s was asked, want %s: %v", b.path, body, calls, want, err)
				}
			case a.status == 400 && calls == "" && (body != b.body || b.names != ""):
			case a.status == 413 && calls == "" && len(body) > bodyLimit:
			default:
				t.Fatalf("%s %.200q: %d %s, asked %q", b.path, body, a.status, a.body, calls)
			}
		}
		sum := 0
		for _, path := range []string{"command", "mode", "arm", "estop"} {
			if sum += taken[path]; taken[path] == 0 {
				t.Errorf("of %s none was taken: the case shows nothing of it", path)
			}
		}
		if sum == bodies {
			t.Error("all were taken: the case shows nothing of what is refused")
		}
		return map[string]any{"bodies": bodies, "taken": taken, "grown_mib": withinTenMiB(t, before)}
	})
}

// asks is what a body that is taken asks the agent for, by the decoders of this package, to which others agree.
func asks(path string, body []byte) (call string, err error) {
	switch path {
	case "command":
		v, expiresNs, err := decodeCommand(body)
		if err == nil {
			err = judgeCommand(body, v, expiresNs)
		}
		return fmt.Sprintf("command %g %g %g until %d", v[0], v[1], v[2], expiresNs), err
	case "mode":
		mode, trips, err := decodeMode(body)
		if err == nil {
			err = judgeMode(body, mode, trips)
		}
		if mode != "damp" {
			return "mode " + mode, err
		}
		shown := uint64(0) // nobody has been told of any
		if trips != nil {
			shown = *trips
		}
		return fmt.Sprintf("damp, shown %d", shown), err
	case "arm":
		return "arm", judgeArm(body)
	}
	cut, err := decodeEStop(body)
	if err == nil {
		err = judgeEStop(body, cut)
	}
	return fmt.Sprintf("estop cut=%t", cut), err
}

// wild is a policy of which one answer in fifty is no action.
type wild struct {
	random  *rand.Rand
	answers atomic.Int64
}

func (*wild) Reset([]int) {}

func (p *wild) Act(_ *rollout.Step, d *rollout.Decision) error {
	p.answers.Add(1)
	for i := range d.Action {
		d.Action[i] = float32(p.random.Float64()*4 - 2) // past the joints' limits at times
	}
	if p.random.IntN(50) == 0 {
		nonsense := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e39, -1e38, 1e6, -40}
		d.Action[p.random.IntN(len(d.Action))] = float32(nonsense[p.random.IntN(len(nonsense))])
	}
	return nil
}

// referee judges every frame that reaches the robot by the robot's own figures.
type referee struct {
	random            *rand.Rand
	had, sent         wire.LowState // what the loop had when it made the frame, and the newest
	torque, nonsense  int           // frames with torque, states that were none
	worstQ, worstTorq float64       // how far a frame came to its limit, 1 is at it
	said              string
}

// state spoils one state in 2000, and the sticks of one in 20.
func (j *referee) state(s *wire.LowState) {
	nonsense := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 3e38, -1e6}
	x := nonsense[j.random.IntN(len(nonsense))]
	if j.random.IntN(2000) == 0 {
		j.nonsense++
		m := &s.Motor[j.random.IntN(go1.Joints)]
		*[]*float32{&m.Q, &m.Dq, &s.IMU.Gyroscope[1], &s.IMU.Quaternion[2], &s.IMU.Accelerometer[0]}[j.random.IntN(5)] = x // the wire's torque has no such value
	}
	if j.random.IntN(20) == 0 {
		m := wire.Remote{Head: [2]byte{wire.RemoteHead0, wire.RemoteHead1}, Lx: x, Ly: nonsense[j.random.IntN(len(nonsense))], Rx: -x}
		copy(s.Remote[:], wire.AppendRemote(nil, &m))
	}
	j.had, j.sent = j.sent, *s
}

func (j *referee) frame(f *linktest.Frame) {
	cmd := f.Cmd()
	if f.Err != nil || f.Class != linktest.Torque && f.Class != linktest.Damping {
		j.said = fmt.Sprintf("frame %d of class %v: %v", f.Number, f.Class, f.Err)
		return
	}
	for i, m := range cmd.Motor[:go1.Joints] {
		for _, x := range []float32{m.Q, m.Dq, m.Tau, m.Kp, m.Kd} {
			if x-x != 0 {
				j.said = fmt.Sprintf("frame %d, joint %d is not finite: %+v", f.Number, i, m)
			}
		}
		if f.Class != linktest.Torque {
			continue
		}
		j.torque++
		half := float64(go1.TargetUpper[i]-go1.TargetLower[i]) / 2
		off := math.Abs(float64(m.Q)-float64(go1.TargetUpper[i]+go1.TargetLower[i])/2) / half
		tau := math.Abs(float64(m.Kp*(m.Q-j.had.Motor[i].Q)+m.Kd*(m.Dq-j.had.Motor[i].Dq)+m.Tau)) / float64(go1.TorqueMax[i])
		j.worstQ, j.worstTorq = max(j.worstQ, off), max(j.worstTorq, tau)
		if !(off <= 1+1e-5 && tau <= 1+2e-4 && m.Kp >= 0 && m.Kp <= 120 && m.Kd >= 0 && m.Kd <= 10 && m.Tau == 0 && m.Dq == 0) {
			j.said = fmt.Sprintf("frame %d, joint %d past its limits (angle %.3f, torque %.3f of them): %+v; the state it answers: %+v, the next: %+v", f.Number, i, off, tau, m, j.had.Motor[i], j.sent.Motor[i])
		}
	}
}

// TestPromise06Gate sends mutated commands, many of them far out of range, to the real loop under a wild policy before a robot whose
// states and sticks are no numbers at times, and judges what reaches the motors. A case is 2000 commands or
// more.
func TestPromise06Gate(t *testing.T) {
	promise.New(t, 6, 1, 100).Run(t, func(t *testing.T, seed uint64) map[string]any {
		random := rand.New(rand.NewPCG(seed, 66))
		policy := &wild{random: rand.New(rand.NewPCG(seed, 67))}
		loop, robot := startLoopOn(t, newGrantedClock(20_000e9), policy, 60000)
		eye := &referee{random: rand.New(rand.NewPCG(seed, 68))}
		robot.OnState(eye.state)
		robot.OnFrame(eye.frame)
		r := start(t, loop)
		before := residentBytes(t)
		ranges := [3][2]float32{testInfo.CommandRange.Vx, testInfo.CommandRange.Vy, testInfo.CommandRange.Wz}
		speeds := []string{"0.5", "-0.3", "0", "-0", "1.5", "1.50001", "-1.1", "3", "1e38", "1e39", "-1e400", "1e-400", "NaN", "null"}
		counts, walks, ticks := map[int]int{}, 0, uint64(0)
		// As many as it takes to have seen the policy and the states at their worst. Each finds the loop at least a tick further on, so that
		// it goes by counts, however busy the machine is: a policy that has not answered so often within 200 s of the robot's time never will.
		const commands, answers, most = 2000, 120, 100_000
		for n := 0; n < commands || policy.answers.Load() < answers && n < most; n++ {
			body := fmt.Sprintf(`{"vx":%s,"vy":%s,"wz":%s,"expires":%.9f}`, speeds[random.IntN(len(speeds))], speeds[random.IntN(5)],
				speeds[random.IntN(5)], float64(loop.NowNs()+1+random.Int64N(2e9))/1e9)
			switch random.IntN(4) {
			case 0:
				body = mutate(random, body)
			case 1:
				if b := badBodies[random.IntN(len(badBodies))]; b.path == "command" {
					body = b.body
				}
			}
			a := r.quick("command", body)
			counts[a.status]++
			v, expiresNs, err := decodeCommand([]byte(body))
			switch {
			case a.status == 200 && err == nil:
				if err := judgeCommand([]byte(body), v, expiresNs); err != nil {
					t.Fatalf("%q: %v", body, err)
				}
				for i, lim := range ranges {
					if !(v[i] >= lim[0] && v[i] <= lim[1]) {
						t.Fatalf("%q was taken", body)
					}
				}
			case a.status == 400, a.status == 409 && err == nil, a.status == 413 && len(body) > bodyLimit:
			default:
				t.Fatalf("%.200q: %d %s; decoded: %v", body, a.status, a.body, err)
			}
			var s control.Snapshot
			for loop.Snapshot(&s); s.Stats.Ticks == ticks; loop.Snapshot(&s) {
				runtime.Gosched()
			}
			ticks = s.Stats.Ticks
			for i, lim := range ranges {
				for _, x := range []float32{s.Asked[i], s.Command[i]} {
					if !(x >= lim[0] && x <= lim[1]) {
						t.Fatalf("asked %v, followed %v", s.Asked, s.Command)
					}
				}
			}
			walks += getUp(t, loop, robot, &s)
		}
		robot.OnFrame(nil)
		robot.OnState(nil)
		if eye.said != "" {
			t.Error(eye.said)
		}
		if eye.torque == 0 || walks == 0 || counts[200] == 0 || counts[400] == 0 || policy.answers.Load() < answers {
			t.Errorf("%d joints under torque, %d walks, %v, %d answers: this case shows nothing", eye.torque, walks, counts, policy.answers.Load())
		}
		return map[string]any{"status": counts, "ticks": ticks, "walks": walks, "answers": policy.answers.Load(), "bad_states": eye.nonsense,
			"worst_angle": eye.worstQ, "worst_torque": eye.worstTorq, "grown_mib": withinTenMiB(t, before)}
	})
}

// getUp is the person beside the robot, who gets it walking again whenever something has stopped it.
func getUp(t *testing.T, loop *control.Loop, robot *linktest.Robot, s *control.Snapshot) (walks int) {
	t.Helper()
	var err error
	switch {
	case s.Mode == control.Idle:
		err = loop.Arm(t.Context())
	case s.Mode == control.Listen, s.Mode == control.Damp:
		robot.SetPose(go1.Folded)
		if err = loop.SetMode(t.Context(), control.Damp); err == nil {
			err = loop.SetMode(t.Context(), control.Stand)
		}
	case s.Mode == control.Stand && s.Phase == control.PhaseReady:
		if err = loop.SetMode(t.Context(), control.Policy); err == nil {
			walks = 1
		}
	case s.Mode == control.Stand && s.Phase == control.PhaseHold:
		err = loop.SetMode(t.Context(), control.Damp)
	}
	if no := new(control.Refusal); err != nil && !errors.As(err, &no) { // which comes of the nonsense
		t.Fatal(err)
	}
	return walks
}

// TestPromise06Fuzz fuzzes each decoder of this package for 200 s, in the full count only: the fuzzers' seeds are tests of their own.
func TestPromise06Fuzz(t *testing.T) {
	targets := []string{"FuzzCommand", "FuzzMode", "FuzzEStop"}
	soak := promise.New(t, 6, 0, uint64(len(targets)))
	if !soak.Full() && os.Getenv("OPENCLAW_SEED") == "" {
		t.Skip("ten minutes: make soak PROMISE=6")
	}
	soak.Run(t, func(t *testing.T, seed uint64) map[string]any {
		name := targets[(seed-1)%uint64(len(targets))]
		cmd := exec.CommandContext(t.Context(), "go", "test", ".", "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", "200s", "-fuzzminimizetime", "1s")
		out, err := cmd.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		return map[string]any{"fuzz": name, "end": lines[max(0, len(lines)-3)]}
	})
}
