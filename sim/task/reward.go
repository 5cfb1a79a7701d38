package task

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// Reward is the weight of each term. A term's value is in its comment; each step adds
// weight * value * dt, but Fall, which is added whole, once, when the row falls.
// Velocities are the body frame's, of the trunk's origin.
type Reward struct {
	TrackingLinVel   float64 `json:"tracking_lin_vel"`  // exp(-(vx error^2 + vy error^2) / 0.25)
	TrackingAngVel   float64 `json:"tracking_ang_vel"`  // exp(-wz error^2 / 0.25)
	LinVelZ          float64 `json:"lin_vel_z"`         // vz^2
	AngVelXY         float64 `json:"ang_vel_xy"`        // wx^2 + wy^2
	Orientation      float64 `json:"orientation"`       // gx^2 + gy^2, g gravity's direction
	Torques          float64 `json:"torques"`           // sum of torque^2, mean over the step
	ActionRate       float64 `json:"action_rate"`       // sum of (a - a1)^2, a1 the action before
	ActionSmoothness float64 `json:"action_smoothness"` // sum of (a - 2 a1 + a2)^2
	Pose             float64 `json:"pose"`              // sum of (q - home)^2
	HipPose          float64 `json:"hip_pose"`          // the hips' part of it, again
	GaitContact      float64 `json:"gait_contact"`      // share of feet whose contact is the clock's
	SwingHeight      float64 `json:"swing_height"`      // swing feet: sum of (height - 0.07 sin(pi s))^2, s progress of the swing
	FootSlip         float64 `json:"foot_slip"`         // stance feet: sum of min(1, speed^2)
	BaseHeight       float64 `json:"base_height"`       // (height - 0.27)^2
	Alive            float64 `json:"alive"`             // 1
	Fall             float64 `json:"fall"`              // 1 when it falls, not times dt
}

// rewardTerms is the number of terms.
const rewardTerms = 16

// Constants of the reward's terms.
const (
	TrackingWidth2 = 0.25 // (m/s)^2 or (rad/s)^2: what error squared is divided by
	SwingClearance = 0.07 // m, of a foot in the middle of its swing
	BaseHeight     = 0.27 // m, of the trunk
)

// DefaultReward is the reward of Walk.
func DefaultReward() Reward {
	return Reward{
		TrackingLinVel: 1.5, TrackingAngVel: 0.75,
		LinVelZ: -2, AngVelXY: -0.05, Orientation: -2,
		Torques: -1e-4, ActionRate: -0.01, ActionSmoothness: -0.005,
		Pose: -0.05, HipPose: -0.3,
		GaitContact: 0.5, SwingHeight: -20, FootSlip: -0.1, BaseHeight: -20,
		Alive: 0.5, Fall: -0.5,
	}
}

// RewardTerms are the names of the terms, in the order of Score.
func RewardTerms() []string {
	return []string{"tracking_lin_vel", "tracking_ang_vel", "lin_vel_z", "ang_vel_xy", "orientation", "torques",
		"action_rate", "action_smoothness", "pose", "hip_pose", "gait_contact", "swing_height", "foot_slip",
		"base_height", "alive", "fall"}
}

func (w *Reward) weights() [rewardTerms]float64 {
	return [...]float64{w.TrackingLinVel, w.TrackingAngVel, w.LinVelZ, w.AngVelXY, w.Orientation, w.Torques,
		w.ActionRate, w.ActionSmoothness, w.Pose, w.HipPose, w.GaitContact, w.SwingHeight, w.FootSlip,
		w.BaseHeight, w.Alive, w.Fall}
}

// Check refuses weights that are not numbers and names the term.
func (w *Reward) Check() error {
	for i, x := range w.weights() {
		if !(math.Abs(x) <= 1e6) {
			return fmt.Errorf("task: world: reward.%s is %v, want -1e6..1e6", RewardTerms()[i], x)
		}
	}
	return nil
}

// mostReward bounds what a term adds in a step: an action may be as large as a float32, and its square
// is not to become an infinity that learning would drown in.
const mostReward = 1e6

// Score is the reward of a step of dt seconds at whose end m holds. It writes what
// each term adds to it into terms, in the order of RewardTerms.
func (w *Reward) Score(m *Moment, fell bool, dt float64, terms []float32) float32 {
	values := m.values()
	terms = terms[:rewardTerms]
	sum := 0.0
	for i, weight := range w.weights() {
		by := dt
		if i == rewardTerms-1 {
			by = 0
			if fell {
				by = 1
			}
		}
		x := min(max(weight*values[i]*by, -mostReward), mostReward)
		terms[i] = float32(x)
		sum += x
	}
	return float32(sum)
}

// values are the terms without weight and time; fall's is 1.
func (m *Moment) values() (v [rewardTerms]float64) {
	sq := func(x float64) float64 { return x * x }
	tracking := func(e2 float64) float64 { return math.Exp(-e2 / TrackingWidth2) }
	v[0] = tracking(sq(m.LinVel[0]-float64(m.Command[0])) + sq(m.LinVel[1]-float64(m.Command[1])))
	v[1] = tracking(sq(m.AngVel[2] - float64(m.Command[2])))
	v[2] = sq(m.LinVel[2])
	v[3] = sq(m.AngVel[0]) + sq(m.AngVel[1])
	v[4] = sq(m.Gravity[0]) + sq(m.Gravity[1])
	v[5] = m.Tau2
	for i, a := range m.Action {
		step, before := float64(a)-float64(m.Last[i]), float64(m.Last[i])-float64(m.Last2[i])
		v[6] += sq(step)
		v[7] += sq(step - before)
		d := sq(m.Q[i] - m.Home[i])
		v[8] += d
		if i%go1.JointsInLeg == go1.Hip {
			v[9] += d
		}
	}
	for leg := range go1.Legs {
		swings, progress := m.swing(leg)
		if m.Contact[leg] != swings {
			v[10] += 1.0 / go1.Legs
		}
		if swings {
			v[11] += sq(m.FootHeight[leg] - SwingClearance*math.Sin(math.Pi*progress))
		} else {
			v[12] += min(1, m.FootVel2[leg])
		}
	}
	v[13] = sq(m.Height - BaseHeight)
	v[14], v[15] = 1, 1
	return v
}

// swing says whether the gait clock wants a foot in the air, and how far through its
// swing (0..1) that foot is: FR and RL step with the clock, FL and RR half a cycle
// later, and each swings in the second half of its cycle.
func (m *Moment) swing(leg int) (swings bool, progress float64) {
	if !m.ClockOn {
		return false, 0
	}
	p := float64(m.Phase)
	if leg == go1.FL || leg == go1.RR {
		p += 0.5
	}
	p -= math.Floor(p)
	return p >= 0.5, (p - 0.5) / 0.5
}
