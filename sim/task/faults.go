package task

import (
	"fmt"
	"math"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Fault is one thing wrong between a policy and its robot. The contract still
// says that all is well: a fault changes what happens, not what Spec says. The
// zero Fault changes nothing; a member that is zero neither.
type Fault struct {
	Name string
	Doc  string
	// Outcome is what others saw in one run with Playground's policy told to walk at
	// 1 m/s for 10 s (shared/policies/README.md). Full and Coarse are what 32 rows do
	// in sim/mujoco, with its own physics and with that of the others; falls are the
	// first and the median. TestOneFaultTable there bounds both.
	Outcome, Full, Coarse string

	// What the policy is shown.
	LeftFirst     bool                 // joints of legs FL FR RL RR where the contract has FR FL RR RL
	FlipGravity   bool                 // upright is 0, 0, +1
	LinVelZero    bool                 // no velocity
	LinVelCommand bool                 // the command in place of the velocity
	LinVelNoise   float64              // m/s, standard deviation on each axis, new each step
	GyroDegrees   bool                 // degrees/s
	ObsHome       *[go1.Joints]float32 // rad, subtracted from joint angles in place of the contract's home
	ObsDelay      int                  // policy steps, at most MaxDelay

	// What the motors get.
	ActionScale float32 // times the contract's
	Kp          float64 // N*m/rad, every joint
	Kd          float64 // N*m*s/rad, every joint
	TargetDelay int     // policy steps, at most MaxDelay; home stands until the first arrives
	TargetLoss  float64 // share 0..1 of targets that never arrive: the motors keep the last one
}

// MaxDelay bounds ObsDelay and TargetDelay, policy steps.
const MaxDelay = 8

// leggedGymHome is the home pose of legged_gym's and walk-these-ways' Go1.
var leggedGymHome = [go1.Joints]float32{
	-0.1, 0.8, -1.5,
	0.1, 0.8, -1.5,
	-0.1, 1.0, -1.5,
	0.1, 1.0, -1.5,
}

// Faults are the one-fault table: mistakes that users of other systems made.
func Faults() []Fault {
	return []Fault{
		{Name: "legs-left-first", Doc: "observation has the legs in the order FL FR RL RR", Outcome: "falls at 1.00 s",
			Full: "falls at 0.7 s, median 0.9 s", Coarse: "nearly all fall at 0.6 s, median 1.4 s", LeftFirst: true},
		{Name: "gravity-flipped", Doc: "gravity's sign is +1 when upright", Outcome: "stands still for ever",
			Full: "stands still for ever", Coarse: "stands still for ever", FlipGravity: true},
		{Name: "linvel-zero", Doc: "no velocity estimate: zeros", Outcome: "falls at 1.84 s; stands at command 0",
			Full: "runs away at 3.7 m/s; stands at command 0", Coarse: "runs away at 3.2 m/s; most fall, at 1.6 s, median 6.5 s", LinVelZero: true},
		{Name: "linvel-command", Doc: "the command in place of the velocity", Outcome: "walks, 1.22 m/s",
			Full: "walks, 1.20 m/s", Coarse: "walks, 1.23 m/s", LinVelCommand: true},
		{Name: "linvel-noise", Doc: "velocity with noise of 0.5 m/s (standard deviation)", Outcome: "walks, 0.78 m/s",
			Full: "walks, 0.81 m/s", Coarse: "walks, 0.77 m/s", LinVelNoise: 0.5},
		{Name: "gyro-degrees", Doc: "gyroscope in degrees/s", Outcome: "falls at 0.84 s",
			Full: "falls at 0.2 s, median 0.5 s", Coarse: "falls at 0.2 s, median 0.3 s", GyroDegrees: true},
		{Name: "home-legged-gym", Doc: "joint angles relative to legged_gym's home pose", Outcome: "walks askew: 0.95 m/s, yaw -0.13 rad/s",
			Full: "walks askew: 0.97 m/s, yaw -0.13 rad/s", Coarse: "walks askew: 0.95 m/s, yaw -0.14 rad/s", ObsHome: &leggedGymHome},
		{Name: "action-scale-half", Doc: "action scale 0.25 in place of 0.5", Outcome: "walks at 0.44 m/s",
			Full: "walks at 0.72 m/s", Coarse: "walks at 0.40 m/s", ActionScale: 0.5},
		{Name: "action-scale-double", Doc: "action scale 1.0 in place of 0.5", Outcome: "1.16 m/s, yaw 0.39 rad/s",
			Full: "1.21 m/s, yaw 0.30 rad/s; most fall, at 0.7 s, median 2.9 s", Coarse: "1.17 m/s, yaw 0.37 rad/s; a third falls", ActionScale: 2},
		{Name: "kp-20", Doc: "kp 20 in place of 35", Outcome: "0.93 m/s at a height of 0.245 m",
			Full: "0.97 m/s at a height of 0.249 m", Coarse: "0.93 m/s at a height of 0.244 m", Kp: 20},
		{Name: "kp-100", Doc: "kp 100 and kd 2 in place of 35 and 0.5", Outcome: "0.87 m/s",
			Full: "0.91 m/s", Coarse: "0.92 m/s", Kp: 100, Kd: 2},
		{Name: "target-late-1", Doc: "target one policy step late (20 ms)", Outcome: "0.95 m/s, drifts by 0.14 m/s",
			Full: "1.04 m/s, drifts by 0.03 m/s", Coarse: "1.02 m/s, drifts by 0.05 m/s", TargetDelay: 1},
		{Name: "target-late-2", Doc: "target two policy steps late (40 ms)", Outcome: "falls at 4.80 s",
			Full: "falls at 0.7-7.0 s, median 0.9 s", Coarse: "falls at 0.5-6.5 s, median 1.0 s", TargetDelay: 2},
		{Name: "target-late-3", Doc: "target three policy steps late (60 ms)", Outcome: "falls at 0.86 s",
			Full: "falls at 0.8-3.0 s, median 0.8 s", Coarse: "falls at 0.6-2.0 s, median 0.6 s", TargetDelay: 3},
		{Name: "obs-late-2", Doc: "observation two policy steps old (40 ms)", Outcome: "falls at 1.78 s",
			Full: "three quarters fall at 1.5-9.4 s, median 4 s", Coarse: "nearly all fall at 1.0-8.6 s, median 3 s", ObsDelay: 2},
		{Name: "target-loss-20", Doc: "20 % of targets lost", Outcome: "1.03 m/s",
			Full: "1.03 m/s", Coarse: "1.02 m/s", TargetLoss: 0.2},
		{Name: "target-loss-50", Doc: "50 % of targets lost", Outcome: "falls at 8.28 s",
			Full: "1.02 m/s; a sixth falls at 2.0-9.1 s", Coarse: "0.99 m/s; a sixth falls at 1.0-9.8 s", TargetLoss: 0.5},
	}
}

// FaultByName finds a fault of the table; the error lists the names.
func FaultByName(name string) (Fault, error) {
	all := Faults()
	names := make([]string, len(all))
	for i, f := range all {
		if f.Name == name {
			return f, nil
		}
		names[i] = f.Name
	}
	return Fault{}, fmt.Errorf("task: fault %q is not known; there are %s", name, strings.Join(names, ", "))
}

// Check refuses a fault that cannot be simulated and names the member.
func (f *Fault) Check() error {
	bad := func(member string, v any, want string) error {
		return fmt.Errorf("task: fault %s: %s is %v, want %s", f.Name, member, v, want)
	}
	switch {
	case f.ObsDelay < 0 || f.ObsDelay > MaxDelay:
		return bad("ObsDelay", f.ObsDelay, fmt.Sprintf("0..%d", MaxDelay))
	case f.TargetDelay < 0 || f.TargetDelay > MaxDelay:
		return bad("TargetDelay", f.TargetDelay, fmt.Sprintf("0..%d", MaxDelay))
	case !(f.TargetLoss >= 0 && f.TargetLoss <= 1):
		return bad("TargetLoss", f.TargetLoss, "0..1")
	case !(f.LinVelNoise >= 0 && f.LinVelNoise <= 100):
		return bad("LinVelNoise", f.LinVelNoise, "0..100")
	case !(f.ActionScale >= 0 && f.ActionScale <= 100):
		return bad("ActionScale", f.ActionScale, "0..100")
	case !(f.Kp >= 0 && f.Kp <= 1000):
		return bad("Kp", f.Kp, "0..1000")
	case !(f.Kd >= 0 && f.Kd <= 100):
		return bad("Kd", f.Kd, "0..100")
	}
	if f.ObsHome != nil {
		for i, x := range f.ObsHome {
			if x-x != 0 {
				return bad("ObsHome of "+go1.JointNames[i], x, "a number")
			}
		}
	}
	return nil
}

// Row is a Fault at work on one row. After NewRow it does not allocate.
type Row struct {
	fault    Fault
	rand     Rand
	home     [go1.Joints]float32 // the contract's, rad, SDK order
	mirrored [go1.Joints]int     // policy index of the same joint on the other side

	readings [MaxDelay + 1]go1.Reading // the past, newest first
	sensed   int                       // past readings since Reset, at most ObsDelay
	targets  [MaxDelay + 1][go1.Joints]float32
	held     [go1.Joints]float32 // what the motors hold
}

// NewRow puts f to work on a row of an Env that offers spec.
func NewRow(f Fault, spec *rollout.Spec, seed uint64, row int) (*Row, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	motor, err := go1.MotorOrder(spec.Joints)
	if err != nil {
		return nil, err
	}
	r := &Row{fault: f, rand: NewRand(seed, row, StreamFault)}
	var policy [go1.Joints]int // policy index of each SDK joint
	for i, m := range motor {
		policy[m] = i
	}
	for i, m := range motor {
		r.mirrored[i] = policy[go1.OtherSide(m)]
		r.home[m] = spec.Home[i]
	}
	r.Reset()
	return r, nil
}

// Reset begins an episode: nothing of the old one is on its way any more.
func (w *Row) Reset() {
	w.sensed = 0
	for i := range w.targets {
		w.targets[i] = w.home
	}
	w.held = w.home
}

// Sense turns what is into what the policy is shown. Call it once an observation.
func (w *Row) Sense(r *go1.Reading) {
	f := &w.fault
	if f.LeftFirst {
		old := *r
		for m := range go1.Joints {
			r.Q[m], r.Dq[m] = old.Q[go1.OtherSide(m)], old.Dq[go1.OtherSide(m)]
			r.LastAction[m] = old.LastAction[w.mirrored[m]]
		}
	}
	if f.FlipGravity {
		for i := range r.Gravity {
			r.Gravity[i] = -r.Gravity[i]
		}
	}
	if f.LinVelZero {
		r.LinVel = [3]float32{}
	}
	if f.LinVelCommand {
		r.LinVel = [3]float32{r.Command[0], r.Command[1], 0}
	}
	if f.LinVelNoise > 0 {
		for i := range r.LinVel {
			r.LinVel[i] += float32(f.LinVelNoise * w.rand.Norm())
		}
	}
	if f.GyroDegrees {
		for i := range r.Gyro {
			r.Gyro[i] *= 180 / math.Pi
		}
	}
	if f.ObsHome != nil {
		for i, h := range f.ObsHome {
			r.Q[i] += w.home[i] - h
		}
	}
	if f.ObsDelay > 0 {
		copy(w.readings[1:f.ObsDelay+1], w.readings[:f.ObsDelay])
		w.readings[0] = *r
		*r = w.readings[w.sensed]
		w.sensed = min(w.sensed+1, f.ObsDelay)
	}
}

// Execute turns the joint targets of this step (rad) into those that the motors
// get. Call it once a step.
func (w *Row) Execute(target *[go1.Joints]float32) {
	f := &w.fault
	if f.ActionScale > 0 {
		for i, h := range w.home {
			target[i] = h + f.ActionScale*(target[i]-h)
		}
	}
	if f.TargetDelay > 0 {
		copy(w.targets[1:f.TargetDelay+1], w.targets[:f.TargetDelay])
		w.targets[0] = *target
		*target = w.targets[f.TargetDelay]
	}
	if f.TargetLoss > 0 && w.rand.Float64() < f.TargetLoss {
		*target = w.held
	}
	w.held = *target
}

// Gains are the contract's unless the fault states others.
func (w *Row) Gains(kp, kd float64) (float64, float64) {
	if w.fault.Kp > 0 {
		kp = w.fault.Kp
	}
	if w.fault.Kd > 0 {
		kd = w.fault.Kd
	}
	return kp, kd
}
