package virtual

import (
	"fmt"
	"math"
	"strings"
)

type paramType uint8

const (
	number  paramType = iota
	integer           // a number without a fraction
	joint             // name or SDK index; all where the kind allows it
	foot              // FR FL RR RL
	buttons
	address // IPv4, of this machine, as a number; 0 for the robot's own
	word
)

type param struct {
	name    string
	typ     paramType
	value   string // default
	lo, hi  float64
	words   []string // of word; the first words of a joint beyond the 12
	meaning string
}

// counted is what the parameter samples counts.
type counted uint8

const (
	states counted = iota
	steps
	commands
)

type kind struct {
	name   string
	doc    string
	params []param
	counts counted
	once   bool // has no duration
	person bool // what a person beside the robot does
}

func num(name, value string, lo, hi float64, meaning string) param {
	return param{name: name, value: value, lo: lo, hi: hi, meaning: meaning}
}

func whole(name, value string, lo, hi float64, meaning string) param {
	p := num(name, value, lo, hi, meaning)
	p.typ = integer
	return p
}

func choice(name, value string, words ...string) param {
	meaning := strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	return param{name: name, typ: word, value: value, words: words, meaning: meaning}
}

var (
	share    = num("p", "1", 0, 1, "share of the frames, drawn")
	oneJoint = param{name: "joint", typ: joint, value: "FR_thigh", meaning: "name such as FR_calf, or SDK index"}
	anyJoint = param{name: "joint", typ: joint, value: "all", words: []string{"all"}, meaning: "name, SDK index, or all"}
	oneFoot  = param{name: "foot", typ: foot, value: "FL", meaning: "FR, FL, RR or RL"}
	bodyAxis = choice("axis", "y", "x", "y", "z")
	bothA    = choice("a", "x", "x", "y", "z")
	bothB    = choice("b", "y", "x", "y", "z")
	way      = []param{num("ms", "500", 10, 1e5, "how long the way there takes, and the way back, ms"),
		num("stay", "300", 0, 1e6, "how long it is held there, ms"),
		choice("how", "back", "back", "hold")}
)

func otherJoint(name, value string) param {
	p := oneJoint
	p.name, p.value = name, value
	return p
}

func leg(name, value string) param {
	return param{name: name, typ: foot, value: value, meaning: "FR, FL, RR or RL"}
}

// kinds is the table of what can go wrong; `clawsim robot --faults` prints it.
var kinds = []kind{
	{name: "drop_state", doc: "states are lost on their way", params: []param{share}},
	{name: "delay_state", doc: "states arrive late", params: []param{
		num("ms", "20", 0, 10000, "delay, ms"), num("ms_per_s", "0", 0, 10000, "growth of the delay, ms/s")}},
	{name: "duplicate_state", doc: "states arrive twice", params: []param{share}},
	{name: "reorder", doc: "states arrive in pairs, at each receiver the newer first"},
	{name: "corrupt_state", doc: "one bit of the state is flipped, so its CRC is wrong", params: []param{share}},
	{name: "short_state", doc: "a datagram of bytes bytes more, behind the state", params: []param{whole("bytes", "771", 1, 806, "length; 771 is an A1's")}},
	{name: "long_state", doc: "a datagram of bytes bytes more, behind the state", params: []param{whole("bytes", "900", 808, 1472, "length")}},
	{name: "empty_state", doc: "a datagram of no bytes more, behind the state"},
	{name: "zeros_state", doc: "807 zero bytes instead of the state"},
	{name: "foreign_state", doc: "a datagram more, before the state, from another port, or another address: the state once more, a valid state of a robot that lies on its side, or 807 drawn bytes",
		params: []param{choice("what", "copy", "copy", "lie", "garbage"), share,
			{name: "from", typ: address, value: ownAddress, meaning: "robot for the robot's own address, or an IPv4 address of this machine such as 127.0.0.2"}}},
	{name: "freeze_tick", doc: "the tick stands still, or the whole state", params: []param{choice("what", "tick", "tick", "state")}},

	{name: "imu_quat_zero", doc: "the quaternion is all zeros"},
	{name: "imu_quat_scale", doc: "the quaternion has another length", params: []param{num("scale", "0.5", -100, 100, "its length")}},
	{name: "imu_quat_order", doc: "the quaternion comes as x y z w"},
	{name: "imu_quat_conj", doc: "the quaternion is conjugated: it takes the world's vectors to the body's"},
	{name: "imu_turned", doc: "the IMU is mounted turned about a body axis: acceleration, gyroscope, quaternion and rpy are those of a body turned so",
		params: []param{choice("axis", "z", "x", "y", "z"), num("deg", "90", -360, 360, "degrees, by the right hand")}},
	{name: "imu_mirror", doc: "the IMU is mounted mirrored along a body axis: the acceleration of that axis and the rotations about the two others change sign, in gyroscope, quaternion and rpy",
		params: []param{bodyAxis}},
	{name: "imu_tilt", doc: "quaternion, accelerometer and rpy say another tilt", params: []param{
		num("rad", "0.7", -math.Pi, math.Pi, "tilt, rad"), choice("axis", "roll", "roll", "pitch"), choice("how", "add", "add", "set")}},
	{name: "imu_stuck", doc: "quaternion, gyroscope, accelerometer and rpy stand still"},
	{name: "imu_noise", doc: "noise is added to the IMU, sigma of each sample and axis", params: []param{
		num("gyro", "0.3", 0, 100, "rad/s"), num("acc", "3", 0, 1000, "m/s2"), num("quat", "0.02", 0, 3, "rad, of a rotation")}},
	{name: "gyro_sign", doc: "the gyroscope's sign is wrong", params: []param{choice("axis", "z", "x", "y", "z", "all")}},
	{name: "gyro_units", doc: "the gyroscope speaks degrees per second"},
	{name: "gyro_scale", doc: "an axis of the gyroscope reads scale times as much", params: []param{
		choice("axis", "z", "x", "y", "z"), num("scale", "0.5", -1000, 1000, "0: it reads nothing at all")}},
	{name: "gyro_swapped", doc: "two axes of the gyroscope are exchanged", params: []param{bothA, bothB}},
	{name: "acc_sign", doc: "the accelerometer's sign is wrong", params: []param{choice("axis", "z", "x", "y", "z", "all")}},
	{name: "acc_swapped", doc: "two axes of the accelerometer are exchanged", params: []param{bothA, bothB}},
	{name: "gyro_nan", doc: "the gyroscope's x is NaN"},
	{name: "acc_nan", doc: "the accelerometer's z is NaN"},

	{name: "joint_nan", doc: "a joint's angle or speed is NaN", params: []param{oneJoint, choice("what", "q", "q", "dq")}},
	{name: "joint_speed", doc: "a joint's speed reads value", params: []param{oneJoint, num("value", "29", -1e6, 1e6, "rad/s")}},
	{name: "joint_offset", doc: "a joint's angle reads off by rad", params: []param{oneJoint, num("rad", "0.5", -100, 100, "rad")}},
	{name: "joint_stuck", doc: "a joint's angle and speed stand still", params: []param{anyJoint}},
	{name: "joint_noise", doc: "noise is added to a joint, sigma of each sample", params: []param{anyJoint,
		num("q", "0.02", 0, 10, "rad"), num("dq", "2", 0, 1000, "rad/s")}},
	{name: "joint_reversed", doc: "a joint turns the other way: angle, speed and torque change sign, in states and in commands", params: []param{oneJoint}},
	{name: "joint_speed_scale", doc: "a joint's speed reads scale times as much; only the states are wrong", params: []param{oneJoint,
		num("scale", "-1", -1000, 1000, "-1: the wrong way")}},
	{name: "joint_order", doc: "the twelve motors come in another order, in states and in commands", params: []param{
		choice("order", "legged_gym", "legged_gym", "isaac", "isaac_back")}},
	{name: "motors_swapped", doc: "two motors, of whichever legs, are wired to each other's place, in states and in commands", params: []param{
		otherJoint("a", "FR_thigh"), otherJoint("b", "FL_thigh")}},
	{name: "joints_swapped", doc: "two motors of a leg are wired to each other's place, in states and in commands", params: []param{leg("leg", "FR"),
		choice("a", "thigh", "hip", "thigh", "calf"), choice("b", "calf", "hip", "thigh", "calf")}},
	{name: "legs_swapped", doc: "the motors of two legs are wired to each other's place, in states and in commands; feet_swapped is theirs", params: []param{
		leg("a", "FR"), leg("b", "FL")}},
	{name: "power", doc: "sum |tauEst dq| of the state is that many W, by torque and speed of FR_calf", params: []param{
		num("w", "800", 0, 2000, "W")}},
	{name: "power_nan", doc: "a joint's speed is infinite, so power is no number", params: []param{oneJoint}},
	{name: "temperature", doc: "a motor's temperature reads value", params: []param{anyJoint, whole("value", "80", -128, 127, "C")}},
	{name: "temperature_ramp", doc: "a motor's temperature reads more and more; from 100 C it reports mode 0x08", params: []param{anyJoint,
		num("per_s", "5", -1000, 1000, "C/s")}},
	{name: "motor_mode", doc: "a motor reports mode value", params: []param{anyJoint, whole("value", "8", 0, 255, "mode byte, 8 is overheat")}},
	{name: "motor_drop", doc: "a motor drops out of its mode: it reports mode 0x00 and makes no torque", counts: steps, params: []param{oneJoint}},

	{name: "battery", doc: "the state of charge reads soc", params: []param{whole("soc", "8", 0, 255, "%")}},
	{name: "cells", doc: "the cell voltages read mv on average, evenly spread", params: []param{
		num("mv", "3600", 0, 8000, "mV"), num("spread", "0", 0, 8000, "mV from the lowest, the first cell, to the highest")}},
	{name: "cells_missing", doc: "cell voltages read 0", params: []param{whole("n", "10", 1, 10, "how many, from the last")}},
	{name: "remote_absent", doc: "the hand remote's 40 bytes are zero"},
	{name: "remote_buttons", doc: "buttons of the hand remote are down", person: true, params: []param{
		{name: "buttons", typ: buttons, value: "L2+B", meaning: "names joined by +, or a number such as 0x220"}}},
	{name: "remote_sticks", doc: "sticks of the hand remote", person: true, params: []param{
		num("lx", "0", -1, 1, "left stick, right is +"), num("ly", "0", -1, 1, "left stick, forward is +"),
		num("rx", "0", -1, 1, "right stick, right is +"), num("ry", "0", -1, 1, "right stick, forward is +")}},
	{name: "buttons_swapped", doc: "two buttons of the hand remote say each other", params: []param{
		choice("a", "L2", buttonNames...), choice("b", "R2", buttonNames...)}},
	{name: "sticks_swapped", doc: "two directions of the hand remote's sticks say each other", params: []param{
		choice("a", "lx", stickNames...), choice("b", "rx", stickNames...)}},
	{name: "stick_reversed", doc: "a direction of the hand remote's sticks has the other sign", params: []param{choice("stick", "ly", stickNames...)}},
	{name: "foot_force_zero", doc: "all foot sensors read 0"},
	{name: "foot_force_offset", doc: "counts are added to the foot sensors", params: []param{
		num("fr", "20", -32768, 32767, "counts"), num("fl", "40", -32768, 32767, "counts"), num("rr", "60", -32768, 32767, "counts"),
		num("rl", "80", -32768, 32767, "counts"), num("drift", "0", -1000, 1000, "counts/s")}},
	{name: "foot_force_stuck", doc: "one foot sensor reads value", params: []param{oneFoot, whole("value", "120", -32768, 32767, "counts")}},
	{name: "foot_reversed", doc: "a foot sensor counts down where it is pressed", params: []param{oneFoot}},
	{name: "feet_swapped", doc: "two foot sensors are wired to each other's place", params: []param{leg("a", "FR"), leg("b", "FL")}},

	{name: "drop_command", doc: "commands are lost on their way to the robot", counts: commands, params: []param{share}},
	{name: "delay_command", doc: "the motors get each command late", counts: steps, params: []param{num("ms", "20", 0, 10000, "delay, ms")}},
	{name: "duplicate_command", doc: "commands arrive twice, and both are answered", counts: commands, params: []param{share}},
	{name: "reorder_command", doc: "commands arrive in pairs, of each sender the newer first", counts: commands},
	{name: "corrupt_command", doc: "one bit of the command is flipped, so its CRC is wrong", counts: commands, params: []param{share}},
	{name: "other_sender", doc: "the motors follow another program's commands; nothing is received of it (clawsim sender sends real ones)", counts: steps, params: []param{
		{name: "what", typ: word, value: "damping", words: []string{"damping", "pose"}, meaning: "damping (Kd 3), or the pose home with kp"},
		num("kp", "60", 0, 1000, "of pose"), num("kd", "5", 0, 1000, "of pose"), num("share", "1", 0, 1, "share of the time that theirs are in force")}},
	{name: "push", doc: "a force on the trunk", counts: steps, params: []param{
		num("n", "40", 0, 5000, "N"), num("ms", "100", 2, 1e6, "how long, ms, unless a duration is given"),
		num("dir", "90", -360, 360, "degrees from forward, to the left")}},
	{name: "kick", doc: "the robot's velocity changes at once", counts: steps, once: true, params: []param{
		num("vx", "0", -10, 10, "m/s, forward"), num("vy", "0.3", -10, 10, "m/s, left"), num("vz", "0", -10, 10, "m/s, up")}},
	{name: "friction", doc: "the floor's friction", counts: steps, params: []param{num("mu", "0.3", 0.01, 10, "sliding friction")}},
	{name: "turn", doc: "a person turns the robot, which hangs (boot hung), and back, or holds it there until the end", counts: steps, person: true, params: append([]param{
		choice("axis", "pitch", "roll", "pitch", "yaw"), num("rad", "0.5", -math.Pi, math.Pi, "rad; + is right side down, nose down, nose to the left")}, way...)},
	{name: "hand", doc: "a person's hand moves a joint, and back, or holds it there until the end", counts: steps, person: true, params: append([]param{
		oneJoint, num("rad", "0.3", -4, 4, "rad from where it is, in the joint's own sign"), num("nm", "30", 0, 100, "the most that the hand gives, N·m")}, way...)},
	{name: "press", doc: "a person presses a foot between both hands", counts: steps, person: true, params: []param{
		oneFoot, num("n", "40", 0, 1000, "N"), num("ms", "600", 10, 1e6, "how long, ms, unless a duration is given"),
		num("net", "0.1", 0, 1, "share of it that no other hand holds against: it pushes the foot up")}},
	{name: "restart", doc: "the robot's computer starts anew: motors without power, tick 0; the robot lies folded, or hangs on", counts: steps, once: true,
		params: []param{num("down", "0", 0, 1e4, "s without an answer")}},
	{name: "sport_returns", doc: "the maker's sport mode takes the motors and opens its port", counts: steps},
	{name: "clear", doc: "ends every fault in force and forgets those to come", counts: steps, once: true},
}

func findKind(name string) *kind {
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	return nil
}

// FaultHelp is the table of kinds as text.
func FaultHelp() string {
	var b strings.Builder
	var once []string
	for _, k := range kinds {
		fmt.Fprintf(&b, "%-18s %s", k.name, k.doc)
		switch {
		case k.once:
			once = append(once, k.name)
		case k.counts == steps:
			b.WriteString(" [samples: steps]")
		case k.counts == commands:
			b.WriteString(" [samples: commands]")
		}
		b.WriteString("\n")
		for _, p := range k.params {
			fmt.Fprintf(&b, "  %-16s %s", p.name, p.meaning)
			switch p.typ {
			case number:
				fmt.Fprintf(&b, ", %.6g..%.6g", p.lo, p.hi)
			case integer:
				fmt.Fprintf(&b, ", a whole number %.6g..%.6g", p.lo, p.hi)
			}
			fmt.Fprintf(&b, " (default %s)\n", p.value)
		}
	}
	last := len(once) - 1
	fmt.Fprintf(&b, "samples=N ends a fault after N states, or N commands or N steps of 2 ms where its line says so, instead of a duration; "+
		"%s and %s happen at once and have neither.\n", strings.Join(once[:last], ", "), once[last])
	return b.String()
}
