package safety

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// mixed is one of the ten faults that promise 19 mixes.
type mixed struct {
	name     string
	severity Severity
	fault    Fault
	ticks    int // of the loop, from its first to the one in which it must have acted
	// brief ones end by themselves after as many ticks: they would hide the others, or are over in a moment.
	brief bool
}

var ten = [10]mixed{
	{"tilt 0.7 rad", StandHold, Tilt, 1, false},
	{"policy 45 ms old", StandHold, PolicyStale, 1, false},
	{"command 11 s old", StandHold, CommandStale, 1, false},
	{"battery 8 %", Sit, BatteryLow, 501, false},
	{"remote absent", Sit, RemoteAbsent, 500, false},
	{"motor 86 C", Sit, MotorHot, 1001, false},
	{"no states", Damp, StateStale, 20, true},
	{"joint at 29 rad/s", Damp, JointSpeed, 5, false},
	{"loop late 20 ms", Damp, LoopLate, 1, true},
	{"remote L2+B", Cut, RemoteStop, 1, true},
}

// mix is a judge under several of the ten at once, in a mode that gives torque all along: whatever was latched, all is judged.
type mix struct {
	*rig
	on    [10]bool
	began uint16 // set of those that have begun
	worst Severity
}

// step is one period under the faults that are on.
func (m *mix) step() {
	m.s.IMU.Quaternion, m.s.BMS.SOC, m.s.Motor[4].Temperature, m.s.Motor[7].Dq = [4]float32{1}, 80, 35, 0
	m.tick.PolicyOutNs, m.tick.CommandNs, m.silent, m.late = 0, 0, m.on[6], 0
	m.remote(wire.Remote{})
	if m.on[0] {
		m.s.IMU.Quaternion = [4]float32{float32(math.Cos(0.35)), float32(math.Sin(0.35)), 0, 0}
	}
	if m.on[1] {
		m.tick.PolicyOutNs = m.now + period - 45*msNs
	}
	if m.on[2] {
		m.tick.CommandNs = m.now + period - 11e9
	}
	if m.on[3] {
		m.s.BMS.SOC = 8
	}
	if m.on[5] {
		m.s.Motor[4].Temperature = 86
	}
	if m.on[7] {
		m.s.Motor[7].Dq = 29
	}
	if m.on[8] {
		m.late = 20 * msNs
	}
	switch {
	case m.on[9]:
		m.remote(wire.Remote{Buttons: wire.ButtonL2 | wire.ButtonB})
	case m.on[4]:
		clear(m.s.Remote[:])
	}
	before := m.j.Verdict().Severity
	v := m.once()
	if v.Severity < before {
		m.t.Fatalf("%v was lowered to %v by %v, and nobody re-armed", before, v.Severity, v.Fault)
	}
	if v.Severity > m.worst {
		m.t.Fatalf("latched %v by %v; the worst that has begun is %v", v.Severity, v.Fault, m.worst)
	}
}

// begin lets a fault begin; brief ones pass, the others stay.
func (m *mix) begin(f int) {
	m.on[f], m.began, m.worst = true, m.began|1<<f, max(m.worst, ten[f].severity)
	if ten[f].brief {
		for range ten[f].ticks {
			m.step()
		}
		m.on[f] = false
	}
}

func (m *mix) steps(n int) {
	for range n {
		m.step()
	}
}

// latched asserts the most severe of those that have begun, by one of them.
func (m *mix) latched(cause Fault) {
	m.t.Helper()
	v := m.j.Verdict()
	if v.Severity != m.worst {
		m.t.Fatalf("latched %v by %v, want %v", v.Severity, v.Fault, m.worst)
	}
	if m.worst == None {
		return
	}
	for f, k := range ten {
		if k.fault == v.Fault && k.severity == v.Severity && m.began>>f&1 == 1 && (cause == NoFault || cause == v.Fault) {
			return
		}
	}
	m.t.Fatalf("latched %v by %v, which is none of %010b, or not the first, %v", v.Severity, v.Fault, m.began, cause)
}

// TestPromise19: of several faults the most severe act is latched, whatever their order, and only a person lowers it. A case is one of
// the 1024 subsets of ten faults in 20 orders: in half of them each begins when the one before has acted, and the cause is the first of
// the worst; in the others they overlap at random. OPENCLAW_SOAK=19 runs all 1024, which are 20 480 histories of the pure judge;
// through the whole agent pass 200 others in sim/e2e, of eight of these faults and five more.
func TestPromise19(t *testing.T) {
	sample := uint64(24)
	if os.Getenv("OPENCLAW_MUTANT") != "" {
		sample = 4
	}
	promise.New(t, 19, sample, 1024).Run(t, func(t *testing.T, seed uint64) map[string]any {
		subset := uint16((seed - 1) * 619 % 1024) // odd: each once, and a sample's differ much
		const orders = 20
		for i := range orders {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			order := members(subset)
			random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				defer func() {
					if t.Failed() {
						for _, f := range order {
							t.Logf("in this order: %s", ten[f].name)
						}
					}
				}()
				oneOrder(t, random, order, i%2 == 0)
			})
		}
		return map[string]any{"subset": fmt.Sprintf("%010b", subset), "faults": bits.OnesCount16(subset), "orders": orders}
	})
}

func members(subset uint16) (all []int) {
	for f := range ten {
		if subset>>f&1 == 1 {
			all = append(all, f)
		}
	}
	return all
}

func oneOrder(t *testing.T, random *rand.Rand, order []int, inTurn bool) {
	r := newRig(t)
	r.now = 100e9 // old enough for a command of long ago
	r.walking()
	m := &mix{rig: r}
	cause, worst := NoFault, None
	for _, f := range order {
		m.begin(f)
		if inTurn {
			if !ten[f].brief {
				m.steps(ten[f].ticks)
			}
			if ten[f].severity > worst {
				worst, cause = ten[f].severity, ten[f].fault
			}
			m.latched(cause)
			if random.IntN(2) == 0 { // over, and it stays latched
				m.on[f] = false
			}
			continue
		}
		m.steps(random.IntN(300))
	}
	if !inTurn {
		// Silence and L2+B, which shows the remote, make others begin anew: all have acted when the slowest has had its time since.
		m.steps(ten[5].ticks + ten[6].ticks)
	}
	m.latched(cause)

	left := -1 // stays on while a person re-arms
	for f := range m.on {
		if m.on[f] && random.IntN(3) == 0 {
			left = f
		}
	}
	m.on = [10]bool{}
	m.steps(300 + random.IntN(200)) // whole again, and nobody came
	m.latched(cause)
	if left >= 0 {
		m.on[left] = true
		m.steps(ten[left].ticks)
	}
	m.j.Clear()
	m.worst, m.began = None, 0
	if left < 0 {
		m.steps(200)
		m.none()
		return
	}
	m.worst, m.began = ten[left].severity, 1<<left
	m.steps(ten[left].ticks) // re-armed too early
	m.latched(ten[left].fault)
}
