package mujoco

import (
	"fmt"
	"math"
)

// Legs and joints of the Go1, in the SDK's order.
const (
	Legs   = 4
	Joints = 12
)

// JointNames are the names of the joints in the SDK's order.
var JointNames = [Joints]string{
	"FR_hip", "FR_thigh", "FR_calf", "FL_hip", "FL_thigh", "FL_calf",
	"RR_hip", "RR_thigh", "RR_calf", "RL_hip", "RL_thigh", "RL_calf",
}

// Motor modes of the low-level frame (the SDK's header). Any other value leaves a motor without
// power: it makes no torque.
const (
	ModeBrake byte = 0x00 // "damping": torque -Params.Brake*dq, whatever the command holds
	ModeServo byte = 0x0A // torque kp(q*-q) + kd(dq*-dq) + tau
)

// Stop values of the SDK's header. A servo whose Q is PosStop has no position term, one whose Dq
// is VelStop no velocity term; with Q PosStop and Kp 0, Kd still acts about Dq.
const (
	PosStop = 2.146e9
	VelStop = 16000.0
)

// MotorCmd is a command to the twelve motors. Q in rad, Dq in rad/s, Tau in N m, Kp in N m/rad,
// Kd in N m s/rad, all at the joint. Its layout is that of claw_cmd.
//
// The first Late physics steps of an Advance still follow QBefore in place of Q: a command that
// arrives late, within the period that it was meant for.
type MotorCmd struct {
	Mode               [Joints]byte
	Late               int32
	Q, Dq, Tau, Kp, Kd [Joints]float64
	QBefore            [Joints]float64
}

// Servo returns the command that holds q with equal gains on every joint.
func Servo(q [Joints]float64, kp, kd float64) MotorCmd {
	c := MotorCmd{Q: q}
	for i := range Joints {
		c.Mode[i], c.Kp[i], c.Kd[i] = ModeServo, kp, kd
	}
	return c
}

// check names the first number of the command that is not finite.
func (c *MotorCmd) check() error {
	for _, f := range [...]struct {
		name   string
		values *[Joints]float64
	}{{"Q", &c.Q}, {"Dq", &c.Dq}, {"Tau", &c.Tau}, {"Kp", &c.Kp}, {"Kd", &c.Kd}, {"QBefore", &c.QBefore}} {
		for i, v := range f.values {
			if !finite(v) {
				return fmt.Errorf("command: %s of %s is %v", f.name, JointNames[i], v)
			}
		}
	}
	return nil
}

func finite(v float64) bool { return v-v == 0 }

func finiteAll(v ...float64) bool {
	for _, x := range v {
		if !finite(x) {
			return false
		}
	}
	return true
}

// Body is the part of Params that changes the model itself. Its layout is that of claw_body.
type Body struct {
	Armature  [Joints]float64 // reflected rotor inertia, kg m2 at the joint
	Friction  float64         // sliding friction of every contact with the floor
	TrunkMass float64         // kg added to the trunk, its inertia scaled in proportion
	TrunkCoM  [3]float64      // m added to the trunk's centre of mass, trunk frame
}

// Params are a robot's physical parameters. Its layout is that of claw_params.
//
// They are not part of a saved state.
type Params struct {
	Body

	// MotorFriction f takes f*dq/(|dq|+0.1) from each joint, N m: the friction of the gears.
	MotorFriction [Joints]float64
	// Strength is the torque a servo makes over the torque it was asked for.
	Strength [Joints]float64
	// Brake is the damping of mode 0x00, N m s/rad: windings shorted by the driver.
	Brake [Joints]float64
	// TorqueMax saturates each motor, N m.
	TorqueMax [Joints]float64
	// SpeedMax is each joint's speed without load, rad/s; used by the torque-speed line.
	SpeedMax [Joints]float64
	// Corner is the fraction of SpeedMax up to which TorqueMax holds; beyond it the torque that
	// drives the motion falls linearly to 0 at SpeedMax. Torque that brakes is not limited.
	Corner float64
	// TorqueSpeedLine switches that line; without it TorqueMax holds at any speed.
	TorqueSpeedLine bool
}

// DefaultParams returns the nominal Go1.
//
// Torque and speed limits are the URDF's (unitree_ros go1.urdf: 23.7 N m, 30.1 rad/s; calf 35.55
// and 20.06, its reduction of 1.5). Armature is the rotor's inertia (same URDF) times 6.33 squared,
// the calf's times 9.495 squared. Motor friction 0.2 N m, calf 0.3, is between Menagerie's 0.2 and
// Playground's 0.3 and 1.0. No public measurement gives the corner speed or the brake: full torque
// up to half the speed without load, and 1 N m s/rad (calf 1.5 squared times that), are ours.
func DefaultParams() Params {
	p := Params{Body: Body{Friction: 0.8}, Corner: 0.5, TorqueSpeedLine: true}
	for i := range Joints {
		calf := i%3 == 2
		p.Strength[i] = 1
		p.Armature[i] = pick(calf, 0.010083, 0.004481)
		p.MotorFriction[i] = pick(calf, 0.3, 0.2)
		p.Brake[i] = pick(calf, 2.25, 1)
		p.TorqueMax[i] = pick(calf, 35.55, 23.7)
		p.SpeedMax[i] = pick(calf, 20.06, 30.1)
	}
	return p
}

func pick(c bool, a, b float64) float64 {
	if c {
		return a
	}
	return b
}

// check names the first parameter that cannot be simulated.
func (p *Params) check() error {
	bad := func(name string, v float64) error { return fmt.Errorf("parameter %s is %v", name, v) }
	for _, f := range [...]struct {
		name     string
		values   *[Joints]float64
		positive bool
	}{
		{"Armature", &p.Armature, false}, {"MotorFriction", &p.MotorFriction, false},
		{"Strength", &p.Strength, false}, {"Brake", &p.Brake, false},
		{"TorqueMax", &p.TorqueMax, false}, {"SpeedMax", &p.SpeedMax, true},
	} {
		for i, v := range f.values {
			if !finite(v) || v < 0 || f.positive && v == 0 {
				return bad(f.name+" of "+JointNames[i], v)
			}
		}
	}
	if b := &p.Body; !finite(b.Friction) || b.Friction <= 0 {
		return bad("Friction", b.Friction)
	} else if !finite(b.TrunkMass) || b.TrunkMass < -4 || b.TrunkMass > 50 {
		return bad("TrunkMass (-4..50 kg)", b.TrunkMass)
	} else if !finiteAll(b.TrunkCoM[:]...) {
		return fmt.Errorf("parameter TrunkCoM is %v", b.TrunkCoM)
	}
	if !finite(p.Corner) || p.Corner < 0 || p.Corner >= 1 {
		return bad("Corner (0..1)", p.Corner)
	}
	return nil
}

// Pose is where a robot starts, at rest: trunk position in m (world), its attitude, joint angles.
type Pose struct {
	Position [3]float64
	Quat     [4]float64
	Q        [Joints]float64
}

func (p *Pose) check() error {
	if !finiteAll(p.Position[:]...) || !finiteAll(p.Quat[:]...) || !finiteAll(p.Q[:]...) {
		return fmt.Errorf("pose has a number that is not finite: %v", *p)
	}
	if n := math.Hypot(math.Hypot(p.Quat[0], p.Quat[1]), math.Hypot(p.Quat[2], p.Quat[3])); n < 1e-6 {
		return fmt.Errorf("pose has a zero quaternion")
	}
	return nil
}

// HomePose returns the standing pose in which Playground's policies start: hips 0.1 inward, thighs
// 0.9, calves -1.8. The trunk is at 0.293 m, where the feet just press on the floor (Playground's
// own 0.278 m begins with the feet 16 mm inside it).
func HomePose() Pose {
	p := Pose{Position: [3]float64{0, 0, 0.293}, Quat: [4]float64{1, 0, 0, 0}}
	for leg := range Legs {
		p.Q[3*leg], p.Q[3*leg+1], p.Q[3*leg+2] = pick(leg%2 == 0, 0.1, -0.1), 0.9, -1.8
	}
	return p
}

// FoldedPose returns the pose in which a robot without power comes to rest from the folded legs of
// the SDK's examples (0, 1.36, -2.65): belly on the floor, calves at their stops and flat on the
// floor. With the hips at 0 the belly is 22 mm above the floor and the robot slides down until the
// hips have opened by about 0.35.
func FoldedPose() Pose {
	p := Pose{Position: [3]float64{0, 0, 0.0585}, Quat: [4]float64{1, 0, 0, 0}}
	for leg := range Legs {
		p.Q[3*leg], p.Q[3*leg+1], p.Q[3*leg+2] = pick(leg%2 == 0, -0.35, 0.35), 1.225, -2.82
	}
	return p
}

// Hands are forces on the robot from outside. Its layout is that of claw_grip.
type Hands struct {
	Force, Torque [3]float64       // at the trunk's centre of mass, N and N m, world frame
	Joint         [Joints]float64  // between the two links that a joint joins, N m; + as its motor's
	Foot          [Legs][3]float64 // at the middle of the foot, N, world frame
}

// check names the first number that is not finite.
func (h *Hands) check() error {
	if !finiteAll(h.Force[:]...) || !finiteAll(h.Torque[:]...) {
		return fmt.Errorf("hands on the trunk: %v N, %v N m is not finite", h.Force, h.Torque)
	}
	for i, v := range h.Joint {
		if !finite(v) {
			return fmt.Errorf("hand on %s: %v N m is not finite", JointNames[i], v)
		}
	}
	for leg, v := range h.Foot {
		if !finiteAll(v[:]...) {
			return fmt.Errorf("hand under foot %d: %v N is not finite", leg, v)
		}
	}
	return nil
}

// State is what can be known of a robot at an instant. Its layout is that of claw_state.
//
// Everything is of the present instant but Acc, Tau, FootForce, BodyContacts and Contacts, which
// belong to the physics step that led to it, and Tau2 and Power, which are means over the steps of
// the last Advance.
type State struct {
	Time        float64          // s since Reset
	Pos         [3]float64       // trunk origin, world
	Quat        [4]float64       // trunk attitude, w x y z
	LinVelWorld [3]float64       // trunk origin, world frame, m/s
	LinVelBody  [3]float64       // trunk origin, trunk frame
	LinVelIMU   [3]float64       // at the IMU's place, trunk frame: what velocity policies are given
	AngVelBody  [3]float64       // gyro, trunk frame, rad/s
	Acc         [3]float64       // specific force at the IMU, trunk frame, m/s2; at rest upright +9.81 z
	Gravity     [3]float64       // direction of gravity in the trunk frame; upright 0 0 -1
	Q           [Joints]float64  // rad
	Dq          [Joints]float64  // rad/s
	Tau         [Joints]float64  // torque made by the motors, before motor friction, N m
	Tau2        float64          // sum over the motors of tau squared, (N m)2
	Power       float64          // sum over the motors of |tau dq|, W
	FootForce   [Legs]float64    // normal force of the floor, N
	FootPos     [Legs][3]float64 // centres of the foot spheres, world
	FootVel     [Legs][3]float64 // their velocities, world
	KneeHeight  [Legs]float64    // knee axes above the floor, m

	BodyContacts int64      // contacts of parts that are not feet
	Contacts     [Legs]bool // the foot presses on the floor
}
