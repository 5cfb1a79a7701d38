// Package firstcontact judges whether the robot on the gantry is the robot in the documents, before any torque: a person turns
// the hung robot, moves each joint by hand, presses each foot and each button, and the states that come meanwhile show which
// sensor, sign, unit or wire is not as written.
//
//	Begin(step) ─▶ settling ─▶ asking ──motion seen──▶ done ─▶ Record ─▶ Verdicts: imu_mirror_x, joints_swapped, ...
//	LowState, t ─▶ Add ───▲      │  └─────wrong one──▶ again: people err too
//	                      └──────┘  └─────no time left─▶ timed out
//
// It is pure: states come in with their times, figures and verdicts go out; there is no I/O, and no allocation for a state. A
// Record is everything that was measured, so that a session may end and go on later with the steps that have passed, and Verdicts
// names what a Record shows. The same steps and names serve a recording.
//
// Loss (LossTrial, JudgeLoss) is the other thing found out on the gantry: what the motors do when no command comes.
//
// `clawagent doctor --first-contact` and `--hang-test` are the shells around it.
//
// # What is compared with what
//
// A person's motion is the truth: its axis and its sign, not its size. Orientation, gyroscope and accelerometer each say a turn of
// their own: the quaternion from its value before and at the peak, the gyroscope by its integral between, the accelerometer by the
// way gravity went in the body's frame (about x and y only). A mirror image about the axis k (as of an IMU whose axis k points the
// other way, or a left-handed driver) shows vectors with component k reversed and turns with the two other components reversed; an
// IMU that is only turned about k reverses the same turns, but then gravity says which of the two it is. One that is turned about its
// vertical axis by less shows in pitch and roll alike, where a person's want of care does not.
//
// It hangs on a rope, and the person is no machine. A tip is judged by its tilt, whatever the rope turns meanwhile; a yaw begins where it
// began to be quick, since a slow one may be the rope's; what comes back to where it was first asked for is no motion; and a jerk at the
// beginning, which the accelerometer takes for a tilt, is waited for. Hint says what is waited for.
package firstcontact
