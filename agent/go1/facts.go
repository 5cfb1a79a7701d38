package go1

// Robot is the name that contracts use.
const Robot = "unitree-go1"

// VirtualSN is the first half of a virtual robot's serial number (wire.Header.SN), by which it says that it is one. Of a Go1's it is only
// known that the maker's own frames hold zeros.
const VirtualSN = 0x0C1A

// Legs and joints.
const (
	Legs        = 4
	JointsInLeg = 3
	Joints      = Legs * JointsInLeg
)

// Legs in SDK order.
const (
	FR = iota
	FL
	RR
	RL
)

// Joints of a leg.
const (
	Hip = iota
	Thigh
	Calf
)

// JointNames are the URDF's, in SDK order.
var JointNames = [Joints]string{
	"FR_hip_joint", "FR_thigh_joint", "FR_calf_joint",
	"FL_hip_joint", "FL_thigh_joint", "FL_calf_joint",
	"RR_hip_joint", "RR_thigh_joint", "RR_calf_joint",
	"RL_hip_joint", "RL_thigh_joint", "RL_calf_joint",
}

// LegNames in SDK order.
var LegNames = [Legs]string{"FR", "FL", "RR", "RL"}

// JointIndex finds a joint's SDK index by name; -1 if there is none.
func JointIndex(name string) int {
	for i, n := range JointNames {
		if n == name {
			return i
		}
	}
	return -1
}

// perJoint repeats hip, thigh, calf for all legs.
func perJoint(hip, thigh, calf float32) (a [Joints]float32) {
	for i := range a {
		a[i] = [JointsInLeg]float32{hip, thigh, calf}[i%JointsInLeg]
	}
	return a
}

// Limits per joint, SDK order.
var (
	// TargetLower and TargetUpper (rad) bound a commanded angle: the
	// intersection of the URDF's stops with the SDK's Safety class.
	TargetLower = perJoint(-0.863, -0.663, -2.721)
	TargetUpper = perJoint(0.863, 2.966, -0.888)
	// StopLower and StopUpper (rad) are the mechanical stops.
	StopLower = perJoint(-0.863, -0.686, -2.818)
	StopUpper = perJoint(0.863, 4.501, -0.888)
	// TorqueMax (N*m) and SpeedMax (rad/s); the calf has a further 1.5 : 1.
	TorqueMax = perJoint(23.7, 23.7, 35.55)
	SpeedMax  = perJoint(30.1, 30.1, 20.06)
)

// Poses (rad), SDK order.
var (
	// Home is the stance that policies act around: legs slightly inward.
	Home = [Joints]float32{
		0.1, 0.9, -1.8,
		-0.1, 0.9, -1.8,
		0.1, 0.9, -1.8,
		-0.1, 0.9, -1.8,
	}
	// Folded is how it lies on its belly, feet under the hips.
	Folded = perJoint(0, 1.36, -2.65)
)

// HomeHeight is the trunk's height over the floor in Home, m.
const HomeHeight = 0.278

// Geometry, m.
const (
	HipX, HipY = 0.1881, 0.04675 // hip joint from the trunk's origin, by leg signs
	HipOffset  = 0.08            // hip joint to thigh joint, sideways
	ThighLen   = 0.213
	CalfLen    = 0.213
	FootRadius = 0.023
	Mass       = 13.10 // kg, with rotors
)

// IMUPosition is the IMU's place in the trunk's frame, m (URDF imu_joint).
var IMUPosition = [3]float64{-0.01592, -0.06659, -0.00617}

// legSign gives fx (front +1) and s (left +1).
func legSign(leg int) (fx, s float64) {
	fx, s = 1, -1
	if leg >= RR {
		fx = -1
	}
	if leg == FL || leg == RL {
		s = 1
	}
	return fx, s
}
