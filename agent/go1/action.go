package go1

import (
	"fmt"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// ActionMap turns network outputs in policy order into joint targets in SDK order.
type ActionMap struct {
	motor  [Joints]int
	scale  [Joints]float32
	home   [Joints]float32
	clip   *[2]float32
	joints []string
	// Kp (N*m/rad) and Kd (N*m*s/rad) are the contract's gains, SDK order.
	Kp, Kd [Joints]float32
	// Home is the contract's home pose (rad), SDK order.
	Home [Joints]float32
}

// NewActionMap reads the map from a Spec.
func NewActionMap(spec *rollout.Spec) (*ActionMap, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	motor, err := MotorOrder(spec.Joints)
	if err != nil {
		return nil, err
	}
	m := &ActionMap{motor: motor, clip: spec.Action.Clip, joints: spec.Joints}
	copy(m.scale[:], spec.Action.Scale)
	copy(m.home[:], spec.Home)
	for i, k := range motor {
		m.Kp[k], m.Kd[k], m.Home[k] = spec.Kp[i], spec.Kd[i], spec.Home[i]
	}
	return m, nil
}

// Targets writes joint targets (rad, SDK order) for one row's action and the
// clipped action back into it, which is what "previous action" means to the
// next observation. A non-finite action is refused and nothing is written.
func (m *ActionMap) Targets(action []float32, target *[Joints]float32) error {
	if err := rollout.CheckAction(action, 1, m.joints); err != nil {
		return err
	}
	for i := range action {
		if m.clip != nil {
			action[i] = min(max(action[i], m.clip[0]), m.clip[1])
		}
		target[m.motor[i]] = m.home[i] + m.scale[i]*action[i]
	}
	return nil
}

// Action is the inverse of Targets: the network output, in policy order, that
// gives these targets (SDK order). A joint whose scale is 0 gives 0.
func (m *ActionMap) Action(target *[Joints]float32, action []float32) {
	for i := range action {
		action[i] = 0
		if m.scale[i] != 0 {
			action[i] = (target[m.motor[i]] - m.home[i]) / m.scale[i]
		}
	}
}

// Sensing says what a robot can give a policy beyond its bare sensors.
type Sensing struct {
	LinVel bool // a velocity estimator is on
}

// Gains that a Go1's motors can mean anything with; outside, a contract is wrong.
const (
	MinKp, MaxKp = 10, 120
	MinKd, MaxKd = 0.1, 10
)

// Fit refuses a contract that cannot be meant for this robot, and names the
// first thing that does not fit: joints, gains, home pose, action scale, rates,
// or a term of the policy's observation that the robot cannot give.
func Fit(spec *rollout.Spec, has Sensing) error {
	if err := spec.Check(); err != nil {
		return err
	}
	if spec.Robot != Robot {
		return fmt.Errorf("go1: robot: the contract is for %q, this is %q", spec.Robot, Robot)
	}
	motor, err := MotorOrder(spec.Joints)
	if err != nil {
		return err
	}
	for i, m := range motor {
		n := JointNames[m]
		switch {
		case !(spec.Kp[i] >= MinKp && spec.Kp[i] <= MaxKp):
			return fmt.Errorf("go1: kp of %s is %v: gains not plausible for this robot (expected %d..%d)", n, spec.Kp[i], MinKp, MaxKp)
		case !(spec.Kd[i] >= MinKd && spec.Kd[i] <= MaxKd):
			return fmt.Errorf("go1: kd of %s is %v: gains not plausible for this robot (expected %v..%v)", n, spec.Kd[i], MinKd, MaxKd)
		case spec.Home[i] < TargetLower[m] || spec.Home[i] > TargetUpper[m]:
			return fmt.Errorf("go1: home of %s is %v rad, outside %v..%v", n, spec.Home[i], TargetLower[m], TargetUpper[m])
		case !(spec.Action.Scale[i] > 0 && spec.Action.Scale[i] <= 2):
			return fmt.Errorf("go1: action.scale of %s is %v rad, want 0..2", n, spec.Action.Scale[i])
		}
	}
	if spec.PolicyPeriodNs < 2e6 || spec.PolicyPeriodNs > 100e6 || spec.PolicyPeriodNs%2e6 != 0 {
		return fmt.Errorf("go1: policy_period_ns: %d is not a whole number of 2 ms ticks within 100 ms", spec.PolicyPeriodNs)
	}
	g := spec.Group("policy")
	for i := range g.Terms {
		t := &g.Terms[i]
		def := TermByName(t.Name)
		switch {
		case def == nil:
			return fmt.Errorf("go1: group policy, term %s: this robot cannot give it", t.Name)
		case def.Size != t.Size:
			return fmt.Errorf("go1: group policy, term %s: size %d, this robot gives %d", t.Name, t.Size, def.Size)
		case t.Name == "base_lin_vel" && !has.LinVel:
			return fmt.Errorf("go1: group policy, term %s: a Go1 does not sense it and no estimator is on", t.Name)
		case t.Name == "clock" && spec.Clock.Hz == 0:
			return fmt.Errorf("go1: group policy, term %s: the contract has no clock (clock.hz is 0)", t.Name)
		}
	}
	return nil
}
