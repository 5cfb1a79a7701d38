package task

import (
	"fmt"
	"math"
	"strings"
)

// World is everything about a task that can be chosen, apart from the contract and
// the physics model: as data, so that a training run, an evaluation and a test state
// it in the same words. World files are JSON, see DecodeWorld. Units are SI.
type World struct {
	Commands Commands `json:"commands"`
	// EpisodeSeconds is when a row times out; 0: never.
	EpisodeSeconds float64 `json:"episode_seconds"`
	// Stagger lets the first episodes begin at a random age, so that rows do not
	// time out together for ever.
	Stagger bool   `json:"stagger"`
	Falls   Falls  `json:"falls"`
	Start   Start  `json:"start"`
	Noise   Noise  `json:"noise"`
	Vary    Vary   `json:"vary"`
	Pushes  Pushes `json:"pushes"`
	Reward  Reward `json:"reward"`
}

// Start is how episodes begin: standing in the contract's home pose, each number
// varied uniformly by up to these.
type Start struct {
	Joint    float64 `json:"joint"`    // rad, each joint; the trunk is then placed so that the lowest foot touches
	Velocity float64 `json:"velocity"` // m/s, trunk, world x and y each
}

// Noise is what sensors add, new each step, uniform in plus or minus each number.
// Only the group "policy" is shown it.
type Noise struct {
	Gyro     float64 `json:"gyro"`      // rad/s
	Gravity  float64 `json:"gravity"`   // of a direction of length 1
	JointPos float64 `json:"joint_pos"` // rad
	JointVel float64 `json:"joint_vel"` // rad/s
	LinVel   float64 `json:"lin_vel"`   // m/s
}

// Vary is what differs between episodes, each number uniform in its range: [lo, hi],
// or plus or minus a single number.
type Vary struct {
	Friction  [2]float64 `json:"friction"`   // sliding friction of feet on the floor
	TrunkMass [2]float64 `json:"trunk_mass"` // kg added
	TrunkCoM  float64    `json:"trunk_com"`  // m, each axis of the trunk's centre of mass
	Kp        [2]float64 `json:"kp"`         // times the contract's
	Kd        [2]float64 `json:"kd"`         // times the contract's
	Strength  [2]float64 `json:"strength"`   // torque made over torque asked for
	// JointZero is the encoders' offset, rad: servo and observation both see the
	// angle plus it.
	JointZero float64 `json:"joint_zero"`
	// Latency from an action to its target's arrival at the motors, s; with
	// LatencyStep only whole multiples of that are drawn, each equally often.
	Latency       [2]float64 `json:"latency"`
	LatencyStep   float64    `json:"latency_step"`
	LatencyJitter float64    `json:"latency_jitter"` // s, new each step
	GyroBias      float64    `json:"gyro_bias"`      // rad/s, each axis
	// IMUTilt turns the IMU about a random axis, rad: gyroscope and gravity turn.
	IMUTilt float64 `json:"imu_tilt"`
	// LostTargets is the share of policy periods, 0..1, whose target never arrives:
	// the motors keep the one before.
	LostTargets float64 `json:"lost_targets"`
	// TorqueSpeedLine: a motor's torque falls with its speed.
	TorqueSpeedLine bool `json:"torque_speed_line"`
}

// Pushes kick the trunk: its velocity changes at once.
type Pushes struct {
	EverySeconds [2]float64 `json:"every_seconds"` // range of the time between two; 0, 0: none
	Velocity     float64    `json:"velocity"`      // m/s, uniform in plus or minus it, world x and y each
}

// Nominal is one robot as its figures state it: nothing varies, friction 0.8, the
// torque-speed line, the command zero, no time-out. The reward is Walk's.
func Nominal() *World {
	return &World{
		Falls: DefaultFalls(),
		Vary: Vary{Friction: [2]float64{0.8, 0.8}, Kp: [2]float64{1, 1}, Kd: [2]float64{1, 1}, Strength: [2]float64{1, 1},
			TorqueSpeedLine: true},
		Reward: DefaultReward(),
	}
}

// Walk is the world in which a Go1 learns to walk in minutes.
func Walk() *World {
	return &World{
		Commands: Commands{Min: [3]float32{-1, -0.5, -1}, Max: [3]float32{1, 0.5, 1},
			EverySeconds: [2]float64{4, 6}, ZeroShare: 0.1},
		EpisodeSeconds: 20,
		Stagger:        true,
		Falls:          DefaultFalls(),
		Start:          Start{Joint: 0.1, Velocity: 0.2},
		Noise:          Noise{Gyro: 0.2, Gravity: 0.05, JointPos: 0.01, JointVel: 1.5},
		Vary: Vary{
			Friction:  [2]float64{0.4, 1.2},
			TrunkMass: [2]float64{-1, 1},
			Kp:        [2]float64{0.9, 1.1}, Kd: [2]float64{0.9, 1.1}, Strength: [2]float64{1, 1},
			JointZero: 0.02,
			Latency:   [2]float64{0, 0.02}, LatencyStep: 0.005,
		},
		Pushes: Pushes{EverySeconds: [2]float64{4, 8}, Velocity: 0.3},
		Reward: DefaultReward(),
	}
}

// Ship is Walk, wider: what a policy that leaves for robots is trained in.
func Ship() *World {
	w := Walk()
	v := &w.Vary
	v.TrunkCoM = 0.05
	v.Strength = [2]float64{0.9, 1.1}
	v.Latency, v.LatencyJitter = [2]float64{0, 0.03}, 0.005
	v.GyroBias = 0.05
	v.IMUTilt = 2 * math.Pi / 180
	v.TorqueSpeedLine = true
	v.LostTargets = 0.02
	return w
}

// worlds are the presets by name.
var worlds = []struct {
	name string
	new  func() *World
}{
	{"nominal", Nominal}, {"walk", Walk}, {"ship", Ship},
	{"eval_v1", func() *World { e, _ := EvalV1(); return &e.World }},
}

// WorldNames are the names that WorldByName knows.
func WorldNames() []string {
	names := make([]string, len(worlds))
	for i, w := range worlds {
		names[i] = w.name
	}
	return names
}

// WorldByName makes a preset; the error lists the names.
func WorldByName(name string) (*World, error) {
	for _, w := range worlds {
		if w.name == name {
			return w.new(), nil
		}
	}
	return nil, fmt.Errorf("task: world %q is not known; there are %s", name, strings.Join(WorldNames(), ", "))
}

// Check refuses a world that cannot be simulated and names the member as JSON does.
func (w *World) Check() error {
	if err := w.Commands.Check(); err != nil {
		return err
	}
	if err := w.Falls.Check(); err != nil {
		return err
	}
	v := &w.Vary
	for _, f := range []struct {
		name       string
		v, min, mx float64
	}{
		{"episode_seconds", w.EpisodeSeconds, 0, 1e6},
		{"start.joint", w.Start.Joint, 0, 0.5},
		{"start.velocity", w.Start.Velocity, 0, 5},
		{"noise.gyro", w.Noise.Gyro, 0, 100},
		{"noise.gravity", w.Noise.Gravity, 0, 10},
		{"noise.joint_pos", w.Noise.JointPos, 0, 10},
		{"noise.joint_vel", w.Noise.JointVel, 0, 100},
		{"noise.lin_vel", w.Noise.LinVel, 0, 100},
		{"vary.trunk_com", v.TrunkCoM, 0, 0.2},
		{"vary.joint_zero", v.JointZero, 0, 0.5},
		{"vary.latency_step", v.LatencyStep, 0, 1},
		{"vary.latency_jitter", v.LatencyJitter, 0, 1},
		{"vary.gyro_bias", v.GyroBias, 0, 10},
		{"vary.imu_tilt", v.IMUTilt, 0, math.Pi},
		{"vary.lost_targets", v.LostTargets, 0, 1},
		{"pushes.velocity", w.Pushes.Velocity, 0, 10},
	} {
		if !(f.v >= f.min && f.v <= f.mx) {
			return fmt.Errorf("task: world: %s is %v, want %v..%v", f.name, f.v, f.min, f.mx)
		}
	}
	for _, f := range []struct {
		name       string
		r          [2]float64
		min, mx    float64
		zeroIsNone bool
	}{
		{"vary.friction", v.Friction, 0.01, 5, false},
		{"vary.trunk_mass", v.TrunkMass, -4, 50, false},
		{"vary.kp", v.Kp, 0, 10, false},
		{"vary.kd", v.Kd, 0, 10, false},
		{"vary.strength", v.Strength, 0, 10, false},
		{"vary.latency", v.Latency, 0, 1, false},
		{"pushes.every_seconds", w.Pushes.EverySeconds, 0.001, 1e6, true},
	} {
		if f.zeroIsNone && f.r == [2]float64{} {
			continue
		}
		if !(f.r[0] >= f.min && f.r[0] <= f.r[1] && f.r[1] <= f.mx) {
			return fmt.Errorf("task: world: %s is %v..%v, want a range within %v..%v", f.name, f.r[0], f.r[1], f.min, f.mx)
		}
	}
	if first, last := v.latencySteps(); v.LatencyStep > 0 && first > last {
		return fmt.Errorf("task: world: vary.latency: no multiple of %v s lies within %v..%v s", v.LatencyStep, v.Latency[0], v.Latency[1])
	}
	return w.Reward.Check()
}
