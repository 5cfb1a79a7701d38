// Package virtual is a Unitree Go1 that does not exist: MuJoCo's physics behind the maker's UDP protocol, with faults to
// inject and a log that is the referee of tests and of the demo.
//
//	             LowCmd 614 B                    one thread, every 2 ms
//	agent ─────────────────────► decode ─► class ─► command ─► motors and physics (sim/mujoco)
//	      ◄─────────────────────  faults ◄─ LowState ◄─ sensors (noise, bias, quantised) ◄─┘
//	             LowState 807 B                     └─► referee ─► log (JSON Lines)
//
// `clawsim robot` runs it as a program and virtualtest in process. Each valid LowCmd is answered, to whoever sent it,
// with the state of the newest physics step. What a real Go1 does where no public source says is chosen to be the worst: it obeys
// anybody, and without commands it goes on executing the last one for ever (Silence has the alternatives).
//
// Real time is the default: physics on absolute deadlines, 500 a second. Datagrams are put in order with the steps by the kernel's
// receive stamp, so a thread that was held up catches up as if it had not been (at most 100 ms of physics; the robot's tick goes on
// in any case). In lockstep time moves 2 ms for each valid command and stands still otherwise; a state that a fault takes
// away is then replaced by an empty datagram, so that the other side's clock goes on too; and a command behind which another already
// waits is executed without an answer, or a sender that was woken by a duplicate would stay ahead for good. Equal seeds and commands
// give equal log bytes in lockstep.
//
// Boots: folded (lying, without power until the first command), home (standing on its own motors until the first command), sport
// (as home, with the sport mode's high-level port: the first valid LowCmd makes the motors let go, ends sport mode and closes
// the port; the commands behind it are obeyed), hung (hanging from a gantry 0.8 m up, legs in the air, without power until the first
// command; it neither stands nor falls, whatever is commanded).
//
// # Axes and signs
//
// Body and IMU: x forward, y to the left, z up; a rotation is + by the right hand, so roll + lowers the right side, pitch + the nose,
// and yaw + turns the nose to the left. The quaternion is w x y z and takes body vectors to the world's; the gyroscope is in the
// body frame; the accelerometer is the specific force, +9.81 along z at rest. Joints are the SDK's, FR FL RR RL x hip thigh calf: a hip
// is + when its leg swings to the robot's left (about x), thigh and calf when the leg below swings back (about y). Feet count up when
// they are pressed.
//
// A robot with a sensor or wire the wrong way round differs from a sound one like this, in all that a state says and nothing else:
//
//	imu_mirror x         acc x, gyro y z, quaternion y z, pitch and yaw change sign; at rest nothing is to be seen of it
//	imu_mirror y         acc y, gyro x z, quaternion x z, roll and yaw; the same
//	imu_mirror z         acc z, gyro x y, quaternion x y, roll and pitch: the accelerometer hangs upside down, the quaternion does not
//	imu_quat_order       x y z w stands where w x y z should; rpy, which the IMU makes itself, is right
//	imu_quat_conj        quaternion x y z change sign: it takes the world's vectors to the body's; rpy is right
//	imu_turned           acceleration and gyroscope are seen from an IMU turned by deg about the body's axis, quaternion and rpy are its
//	                     attitude: all four agree, and with 90 about z a nose that goes down is a roll
//	gyro_sign, _units,   the gyroscope alone, so that it contradicts the quaternion's own change
//	  _scale, _swapped
//	acc_sign, _swapped   the accelerometer alone; of x and y nothing is to be seen at rest
//	legs_swapped         Motor records 3a..3a+2 and 3b..3b+2 change places, and so do commands; feet do not
//	joints_swapped       two Motor records of one leg, and their commands; motors_swapped: of any two
//	joint_order          all of them: in place i comes, and is commanded, the SDK's motor 3 4 5 0 1 2 9 10 11 6 7 8 (legged_gym: FL FR RL RR),
//	                     3 0 9 6 4 1 10 7 5 2 11 8 (isaac: hips, thighs, calves) or 1 5 9 0 4 8 3 7 11 2 6 10 (isaac_back, its inverse)
//	joint_reversed       q, dq, ddq, tau of one record change sign, and q, dq, tau of its commands: its servo still holds
//	joint_speed_scale    dq alone
//	feet_swapped         two foot sensors; foot_reversed: one counts down where it is pressed
//	buttons_swapped,     two bits, two floats, or the sign of one float of the remote's 40 bytes
//	  sticks_swapped, stick_reversed
//
// Faults change a state in the order in which they were given, by flags, then script, then at run time, so joint_speed before legs_swapped is
// seen on the other leg; but what a person does comes first. Where two say what the floor is, the one that began last is in force; sport
// mode is there while any fault says so; delays add up.
//
// # The person beside the robot
//
// Acts are faults by name: turn (trunk of a robot that hangs), hand (a joint), press (a foot), remote_buttons, remote_sticks. The first three
// act on physics, by a spring and a damper in a hand of bounded force, so that IMU, joints and feet say the same of them; with how=hold a hand
// stays until the fault's duration ends, or clear. A hanging leg has its calf at the end (-0.888) and its hip turned under the robot by
// 0.66 of 0.863 rad, so that a hand moves a calf and a right hip down (rad below 0), a left hip up, and a thigh either way.
//
// # The log
//
// One JSON object a line, written at least every 100 ms. Every record has t (s of robot time since start), tick (ms of the robot's
// clock, as in LowState; it begins anew at a restart) and event:
//
//	start    version, seed, boot, lockstep, low and high (addresses), config
//	thread   priority: what the robot's thread got (real time)
//	command  the class of the received commands changed. class: none, damping, torque, zero, other; from: class before; frame: number
//	         of the accepted frame, from 1; sender; kp, kd: largest of the 12; torque: largest |kp(q*-q)+kd(dq*-dq)+tau| N·m at
//	         the true angles; last_torque_tick: tick at the newest torque frame, -1 when there was none
//	frame    each accepted frame (LogEveryFrame): class, frame, kp, kd, torque, torques (of the 12 joints, signed), target (their q*),
//	         rx_us: when the kernel got it, us of this machine's CLOCK_MONOTONIC (real time)
//	reject   at most one a reason and second: reason (a wire.Reject, or dropped by a fault), count since start, bytes, sender
//	sender   the frames come from another address: sender, before
//	state    50 a second, from physics: pos m, height m, tilt rad, vel (vx vy m/s, wz rad/s, body frame), heading (vx vy m/s along and
//	         across the heading, level), class, contacts (FR FL RR RL, 1 = foot on the floor), feet N, power W (sum |tau dq|),
//	         target_step rad (largest change of a q* between frames since the last record)
//	silence  on (true, false), do (damp, limp), after_ms since the last command: the motors act by themselves, and no longer
//	fault    kind, on (true, false), fault (as text), id, person: true where a person acts; at on, tick is that of the first state (or step) it touches
//	stood    it stood still at standing height for 0.5 s, for the first time since start, lying or a fall
//	lying    after standing it lies still, without having fallen
//	walking  first faster than 0.3 m/s for 1 s
//	fall     cause (trunk, thigh, tilt); once until it stands again; falls: count
//	limp     the motors let go: cause
//	stall    stall_ms: this process was held up that long; dropped_ms: physics that was not made up for
//	error    error: a step that physics did not make, or something else that was refused
//	summary  last record, see Summary
//
// A torque frame is one in which any of motors 0..11 has mode 0x0A and (Kp > 0, or tau != 0, or Kd > 0 and dq* != 0). Damping: all 12
// have mode 0x0A with only Kd above 0, or mode 0x00. Zero: no motor makes any torque. Other: anything else.
package virtual
