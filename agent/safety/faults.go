package safety

import (
	"fmt"
	"strings"
)

// Severity orders what is done; of several faults the most severe is done.
type Severity uint8

// Severities.
const (
	None Severity = iota
	Warn
	StandHold // the policy lets go; the legs are brought home and hold
	Sit       // zero velocity, stand, fold, damp
	Damp      // damping frames at once
	Cut       // as Damp, asked for by a person
)

func (s Severity) String() string {
	return [...]string{"none", "warn", "stand_hold", "sit", "damp", "cut"}[s]
}

// Fault is a numbered reason. Numbers are shared by programs, metrics and
// documents and are never reused.
type Fault uint8

// Faults.
const (
	NoFault           Fault = 0
	StateStale        Fault = 1
	TickStuck         Fault = 2
	StateNotFinite    Fault = 3
	QuaternionBad     Fault = 4
	PolicyStale       Fault = 5
	EndToEndAge       Fault = 6
	Tilt              Fault = 7
	TargetRefused     Fault = 8
	TargetClamped     Fault = 9
	TorqueCapped      Fault = 10
	JointSpeed        Fault = 11
	Power             Fault = 12
	MotorHot          Fault = 13
	MotorOverheatMode Fault = 14
	MotorTempUnknown  Fault = 15
	BatteryLow        Fault = 16
	BatteryUnknown    Fault = 17
	RemoteAbsent      Fault = 18
	RemoteStop        Fault = 19
	MotorModeDropped  Fault = 20
	AnotherSender     Fault = 21
	CommandStale      Fault = 22
	LoopLate          Fault = 23
	StandTracking     Fault = 24
	OperatorSettle    Fault = 25
	OperatorCut       Fault = 26
	LinkLost          Fault = 27
	RobotRestarted    Fault = 28
	SportMode         Fault = 29
	GuardTripped      Fault = 30
	GuardLost         Fault = 31
	IMUStuck          Fault = 32
	faultCount              = 33
)

// Info describes a fault for people.
type Info struct {
	Fault  Fault
	Name   string // in JSON and metric labels
	Title  string
	Act    string // what is done at which limit
	Means  string
	Remedy string
}

// Faults is the table, in the order of their numbers.
var Faults = [faultCount]Info{
	{NoFault, "none", "No fault", "nothing", "Nothing is wrong.", "Nothing."},
	{StateStale, "state_stale", "No fresh state from the robot",
		"6 ms old: warn; 20 ms: the last frame is held; 40 ms: damp",
		"The newest LowState is too old to act on: the link is broken, the robot has stopped answering, or this computer stood still.",
		"Check cable and route with `clawagent doctor`; look at frames refused by reason in /metrics."},
	{TickStuck, "tick_stuck", "The robot's clock stands still",
		"20 ms: the last frame is held; 40 ms: damp",
		"States keep arriving, but their tick does not move on: the same old measurement is sent again and again.",
		"Restart the robot; if it comes back, its main board hangs."},
	{StateNotFinite, "state_not_finite", "NaN or infinity in a state",
		"damp",
		"A joint, the gyroscope or the accelerometer is not a number.",
		"Restart the robot; if it comes back, a sensor or its cable is broken."},
	{QuaternionBad, "quaternion_bad", "The orientation is no orientation",
		"norm outside 0.8..1.2: damp",
		"The IMU's quaternion is all zeros or far from length one, so up and down are unknown.",
		"Restart the robot and let it lie still while the IMU starts."},
	{PolicyStale, "policy_stale", "The policy gives no new targets",
		"1 period: the target is held; 2 periods: stand hold; 5: damp",
		"The policy's last output is too old: it hangs, or the computer is too busy.",
		"Look at CPU load and real-time rights (`clawagent doctor`)."},
	{EndToEndAge, "end_to_end_age", "From sensing to acting takes too long",
		"30 ms: warn; 100 ms: damp",
		"The state that the present target answers was measured long ago, on the way or in the queue. Clocks drift, so a delay that grows by less than 2 ms a second is not seen.",
		"Use a cable, not a radio link; look at the state's delay in /metrics."},
	{Tilt, "tilt", "The body tilts too far",
		"0.6 rad: stand hold; 1.0 rad: damp",
		"The robot is falling or was pushed over.",
		"Set it on its belly, then damp and stand again."},
	{TargetRefused, "target_refused", "A joint target out of reason",
		"not finite, more than 0.5 rad outside the limits, or a gain, speed or torque out of reason (Kp 0..200, Kd 0..20, 100 rad/s, 127 N*m): refused, damp",
		"Whoever made the frame (policy or program) asked for the impossible.",
		"Run `clawpolicy inspect`; the policy does not fit this robot."},
	{TargetClamped, "target_clamped", "A joint target was limited",
		"clamped and counted",
		"A target lay outside the joint's range and was moved to its edge.",
		"Nothing if it is rare."},
	{TorqueCapped, "torque_capped", "A torque was limited",
		"capped at 23.7, 23.7, 35.55 N*m and counted",
		"The frame would have asked for more torque than the motor may give.",
		"Nothing if it is rare."},
	{JointSpeed, "joint_speed", "A joint turns too fast",
		"80 %: warn; 28 rad/s (calf 19) on 5 samples in a row: damp",
		"A leg whips: slipping, an unstable policy, or a broken encoder.",
		"Look at which joint; try a lower speed."},
	{Power, "power", "Too much mechanical power",
		"80 %: warn; 700 W, leaky count of 6: damp",
		"The motors together do more work than walking needs.",
		"A policy that shakes, or a blocked leg."},
	{MotorHot, "motor_hot", "A motor is hot",
		"2 s in a row: 65 C warn; 75 C commands halved; 85 C sit; 95 C damp",
		"A motor's winding is near what it stands.",
		"Let it cool for ten minutes; look for a leg that rubs."},
	{MotorOverheatMode, "motor_overheat_mode", "A motor says that it overheated",
		"damp",
		"A motor reports mode 0x08.",
		"Let it cool; restart the robot."},
	{MotorTempUnknown, "motor_temp_unknown", "A motor tells no temperature",
		"warn",
		"Its temperature reads 0 all the time, so heat cannot be judged.",
		"Feel the motor by hand after some minutes."},
	{BatteryLow, "battery_low", "The battery is low",
		"20 %: warn; 10 %: sit, and no standing up",
		"Soon the robot drops where it stands.",
		"Charge it."},
	{BatteryUnknown, "battery_unknown", "The battery tells nothing plausible",
		"warn",
		"No cell voltage is plausible, so the charge shown means nothing.",
		"Look at the lamps on the battery itself."},
	{RemoteAbsent, "remote_absent", "The hand remote is not there",
		"1 s: no stand, no policy; in policy zero velocity, then sit",
		"The state's 40 bytes of the hand remote are empty, so its stop button would not work.",
		"Switch the remote on; or start with --no-remote if a person with another stop stands by."},
	{RemoteStop, "remote_stop", "Stopped with the hand remote",
		"L2+B: damping at once",
		"A person pressed L2+B.",
		"When it is safe again: damp, then stand."},
	{MotorModeDropped, "motor_mode_dropped", "A motor left servo mode",
		"5 states in a row: damp",
		"A motor no longer reports the mode that it was told.",
		"Restart the robot; check that motor's cable."},
	{AnotherSender, "another_sender", "Somebody else commands the motors",
		"torque estimate off from our last 5 frames on 3 joints, in 20 states in a row or in more than one of five for longer: damp",
		"The motors do not do what our frames say: another program sends to the robot, or sport mode is back.",
		"Stop the other program; see the doctor's list of senders."},
	{CommandStale, "command_stale", "Nobody steers",
		"250 ms: ramp down, zero by 500 ms; 10 s: stand; 20 s: sit",
		"No velocity command has come for a while.",
		"Send commands at 10 Hz or faster; check the operator's link."},
	{LoopLate, "loop_late", "The control loop was late",
		"more than one tick in 100 by 4 ms or more: warn; one by 20 ms: damp",
		"This computer did not run the loop when it had to.",
		"Real-time rights, other load, thermal throttling: `clawagent doctor`."},
	{StandTracking, "stand_tracking", "A leg does not follow while standing up",
		"0.35 rad for 100 ms: damp",
		"Something blocks a leg, or a motor gives no torque.",
		"Free the legs, set it on its belly, try again."},
	{OperatorSettle, "operator_settle", "An operator asked to settle",
		"zero velocity, sit, damp",
		"Somebody pressed the soft stop.",
		"When it is safe again: damp, then stand."},
	{OperatorCut, "operator_cut", "An operator cut",
		"damping at once",
		"Somebody pressed the hard stop.",
		"When it is safe again: damp, then stand."},
	{LinkLost, "link_lost", "The link to the robot failed",
		"10 frames in a row could not be sent: damp",
		"The operating system refused to send or receive.",
		"Check cable, address and route with `clawagent doctor`."},
	{RobotRestarted, "robot_restarted", "The robot started anew",
		"its clock goes back by a second or more: damp",
		"The robot's main board was restarted while it was driven.",
		"Look at the battery and at what made it restart; then damp and stand again."},
	{SportMode, "sport_mode", "The robot came back in sport mode",
		"nothing is sent any more; a person arms anew",
		"The robot was silent, and now its own high-level service answers: it stands, or is about to, and would fall limp at our frames.",
		"Leave sport mode with the hand remote (L2+A, L2+A, L2+B, then L1+L2+START), then arm."},
	{GuardTripped, "guard_tripped", "The guard damped the robot",
		"the loop's beat older than 20 ms (guard.stale_ms): damp",
		"The control loop stood still, so its guard sent damping in its place; from then on no torque frame leaves.",
		"Real-time rights, other load, thermal throttling: `clawagent doctor`. Then damp and stand again."},
	{GuardLost, "guard_lost", "The guard has stopped",
		"100 ms without its beat: sit, and no stand, no policy; it guards nobody any more: damp",
		"The process that would damp the robot if this program died has ended, stands still, or has let this program go.",
		"Look at why it ended (memory, a person); it is started again, then damp and stand."},
	{IMUStuck, "imu_stuck", "The IMU says the same all the time",
		"10 states in a row that repeat it bit for bit, no more than 100 ms from one to the next: damp. States in which no joint moves either do not count, nor break the row, of an IMU without noise: one that was seen to have some counts in all",
		"Quaternion, gyroscope and accelerometer stand still together, which those of a sensor that works never do: the robot would not feel itself fall.",
		"Restart the robot; if it comes back, the IMU or its cable is broken."},
}

func (f Fault) String() string {
	if int(f) < len(Faults) {
		return Faults[f].Name
	}
	return fmt.Sprintf("fault_%d", uint8(f))
}

// FaultsMarkdown is the text of FAULTS.md.
func FaultsMarkdown() string {
	var b strings.Builder
	b.WriteString("# Faults\n\nMade from the table in `faults.go` (`go test ./agent/safety -run FaultsFile -update`). " +
		"Numbers are never reused. A fault that acts is latched: an operator leaves it by `damp`, then `stand`.\n")
	for _, f := range Faults[1:] {
		fmt.Fprintf(&b, "\n## %d %s\n\n**%s.** %s\n\n- what is done: %s\n- what to do: %s\n",
			f.Fault, f.Name, f.Title, f.Means, f.Act, f.Remedy)
	}
	return b.String()
}
