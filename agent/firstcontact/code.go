package firstcontact

// Level of a code.
type Level uint8

// Levels. Any Fault keeps the result from passing.
const (
	Fault Level = iota
	Warning
	Note
)

// Code is one thing that this package can name. The names do not change; where the plain doctor or the judge knows the same thing,
// it is their name.
type Code uint8

// Codes.
const (
	MotorModeDropped Code = iota
	StateNotFinite
	QuaternionBad
	IMUStuck
	IMUNoisy
	GyroBias
	AccNorm
	Tilt
	HangsAskew
	QuatOrder
	IMUMirrorX
	IMUMirrorY
	IMUMirrorZ
	GyroSign
	GyroUnits
	GyroAxes
	IMUAxes
	GravityMismatch
	NeverStill
	KneeFolded
	JointRange
	JointNoisy
	JointStuck
	JointReversed
	JointSpeed
	JointsSwapped
	LegsExchanged
	LegsSwapped
	JointOrder
	JointNotAlone
	FootForceZero
	FootStuck
	FeetSwapped
	FootOrder
	RemoteAbsent
	RemoteMapping
	RemoteStickSigns
	MotorTempUnknown
	MotorHot
	BatteryUnknown
	BatteryLow
	CellsMissing
	CellsUneven
	NothingSeen
	LossHold
	LossDamp
	LossLimp
	LossUnclear
	codeCount = iota
)

// Info describes a code for people.
type Info struct {
	Name   string
	Level  Level
	Title  string
	Remedy string
}

const (
	imuDriver = "Do not stand it up. The IMU or its driver is not what policies and estimator expect: compare firmware versions, and how the main board is mounted."
	wires     = "Do not stand it up: commands would go to the wrong motor. Put the plugs right (the maker's wiring plan), then repeat the step."
)

// Codes is the table.
var Codes = [codeCount]Info{
	MotorModeDropped: {"motor_mode_dropped", Fault, "Motors do not take the servo mode that our frames tell them", "Restart the robot. If single motors stay out, look at their cables; if all do, compare firmware versions: they take neither form of the CRC."},
	StateNotFinite:   {"state_not_finite", Fault, "NaN or infinity in a state", "Restart the robot; if it comes back, a sensor or its cable is broken."},
	QuaternionBad:    {"quaternion_bad", Fault, "The orientation is no orientation", "Restart the robot and let it hang still while the IMU starts."},
	IMUStuck:         {"imu_stuck", Fault, "A part of the IMU says the same all the time", "Restart the robot; if it comes back, the IMU or its cable is broken."},
	IMUNoisy:         {"imu_noisy", Warning, "The IMU is noisier than the estimator and policies expect", "Look for a loose IMU or main board, and for what shakes the gantry; repeat."},
	GyroBias:         {"gyro_bias", Warning, "The gyroscope does not read zero at rest", "Restart the robot and let it hang still while the IMU starts."},
	AccNorm:          {"acc_norm", Fault, "At rest the accelerometer does not read 9.81 m/s2", imuDriver},
	Tilt:             {"tilt", Fault, "It does not hang level", "Hang it level, feet free and down; if it does, the IMU is mounted turned."},
	HangsAskew:       {"hangs_askew", Warning, "It hangs a little out of level", "Hang it level and repeat; if it does hang level, the IMU is mounted turned by so much, and takes every floor for a slope."},
	QuatOrder:        {"quat_order", Fault, "The quaternion comes as x y z w, not as w x y z", imuDriver},
	IMUMirrorX:       {"imu_mirror_x", Fault, "The IMU is mirrored: its x axis points backwards", imuDriver},
	IMUMirrorY:       {"imu_mirror_y", Fault, "The IMU is mirrored: its y axis points to the right", "If left and right may have been taken for each other, stand behind it, look the way it looks, and repeat. " + imuDriver},
	IMUMirrorZ:       {"imu_mirror_z", Fault, "The IMU is mirrored: its z axis points down", imuDriver},
	GyroSign:         {"gyro_sign", Fault, "An axis of the gyroscope has the wrong sign", imuDriver},
	GyroUnits:        {"gyro_units", Fault, "The gyroscope is not in rad/s, or one of its axes has another scale", imuDriver},
	GyroAxes:         {"gyro_axes", Fault, "The gyroscope turns about other axes than the orientation", imuDriver},
	IMUAxes:          {"imu_axes", Fault, "The IMU turns about other axes than the body", "Repeat the motions exactly as asked; if it stays so, the IMU is mounted turned or its driver orders the axes otherwise: do not stand it up."},
	GravityMismatch:  {"gravity_mismatch", Fault, "Quaternion and accelerometer disagree about where down is", "If a motion showed it, repeat that slowly and hold it there: a jerk shakes the accelerometer. Else, or if it stays so: " + imuDriver},
	NeverStill:       {"never_still", Fault, "It never hung still", "Let it hang freely, hands off, out of the wind, and hold the body until it does not sway; then repeat: what its joints and sensors said meanwhile is what all later motions are counted from."},
	KneeFolded:       {"knee_folded", Fault, "A knee hangs folded, and has no way left to be bent", "By hand stretch it, leave it so, and repeat; where it was found reversed beside, that may be the only reason."},
	JointRange:       {"joint_range", Fault, "A joint reads an angle outside its mechanical stops", "That encoder or its zero is wrong: calibrate it with the maker's tool."},
	JointNoisy:       {"joint_noisy", Warning, "A joint's angle or speed is noisier than policies expect", "Look at that motor's cable and encoder."},
	JointStuck:       {"joint_stuck", Fault, "A joint reads the same angle while it is moved", "Its encoder or cable is broken: do not stand it up."},
	JointReversed:    {"joint_reversed", Fault, "A joint reads the wrong sign", "Do not stand it up: it would drive away from its target. Restore that motor's configuration with the maker's tool."},
	JointSpeed:       {"joint_speed", Fault, "A joint's speed is not that of its angle", "Do not stand it up: policies and damping go by the speed. Repeat the step once; if it stays so, restore that motor's configuration with the maker's tool, or compare firmware versions."},
	JointsSwapped:    {"joints_swapped", Fault, "Two joints of a leg are swapped", wires},
	LegsExchanged:    {"legs_exchanged", Fault, "Every leg answers for the one opposite", "Either a person took them for each other, or the order of the joints is another one: " + Stand + ", and repeat. If it stays so, do not stand it up."},
	LegsSwapped:      {"legs_swapped", Fault, "Two legs are swapped", wires},
	JointOrder:       {"joint_order", Fault, "Another joint moves than the one that was moved", "Repeat the step with the named joint; if it stays so, do not stand it up: the order of the joints is another one."},
	JointNotAlone:    {"joint_not_alone", Fault, "Several joints moved at once", "Repeat the step and hold the others still; if they move by themselves, look for another program that sends."},
	FootForceZero:    {"foot_force_zero", Warning, "No foot sensor says anything: 0, or the same all the time", "It walks without; contacts then come from torque and kinematics."},
	FootStuck:        {"foot_stuck", Warning, "A foot sensor does not answer while it is pressed", "It walks without; the estimator leaves that foot out. Look at its cable, or repeat, if nobody pressed it."},
	FeetSwapped:      {"feet_swapped", Fault, "Two foot sensors are swapped", "Put the plugs right: the estimator would trust the foot that is in the air."},
	FootOrder:        {"foot_order", Fault, "Another foot answers than the one that was pressed", "Repeat the step with the named foot; if it stays so, put the plugs right."},
	RemoteAbsent:     {"remote_absent", Fault, "The hand remote is not there", "Switch it on and repeat; its stop (L2+B) is what a person has in the hand."},
	RemoteMapping:    {"remote_buttons", Fault, "A button of the hand remote is not where it should be", "Repeat with the named button; if it stays so, this remote's bytes are others: the stop L2+B must not be relied on."},
	RemoteStickSigns: {"remote_sticks", Fault, "A stick of the hand remote reads otherwise than it is pushed", "Repeat with the named stick; if it stays so, set control.remote_vx_m_s, remote_vy_m_s and remote_wz_rad_s to 0 and run it again: then the sticks drive nothing, and are not asked for."},
	MotorTempUnknown: {"motor_temp_unknown", Warning, "A motor tells no temperature", "Feel the motor by hand after some minutes."},
	MotorHot:         {"motor_hot", Warning, "A motor is hot", "Let it cool for ten minutes; look for a leg that rubs."},
	BatteryUnknown:   {"battery_unknown", Warning, "The battery tells nothing plausible", "Look at the lamps on the battery itself."},
	BatteryLow:       {"battery_low", Warning, "The battery is low", "Charge it."},
	CellsMissing:     {"cells_missing", Fault, "Cells of the battery are missing", "Do not use that battery: have its cells measured. (If it was made with fewer: first_contact.exam.cells.)"},
	CellsUneven:      {"cells_uneven", Warning, "The battery's cells are uneven", "Charge it fully and look again; if it stays so, replace the battery."},
	NothingSeen:      {"nothing_seen", Fault, "What was asked for was not seen in time", "Run the command again: the steps that have passed are kept. If the motion was made, that sensor is dead. (A foot sensor that says the same all the time, unplugged for instance, or the only one that does not answer, is no more than a warning.)"},
	LossHold:         {"link_loss_hold", Warning, "Without commands the motors hold the last one", "Keep the guard running: with the computer dead, nothing but the robot's own switch stops it."},
	LossDamp:         {"link_loss_damp", Note, "Without commands the motors damp", ""},
	LossLimp:         {"link_loss_limp", Warning, "Without commands the motors go limp", "It drops where it stands when the link is lost: walk it where that harms nobody."},
	LossUnclear:      {"link_loss_unclear", Fault, "What the motors do without commands could not be told", "Hang it with its feet free, let it come to rest, and run `clawagent doctor --hang-test --hung` again."},
}

func (c Code) String() string { return Codes[c].Name }
