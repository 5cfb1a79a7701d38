// Package mujoco simulates a Unitree Go1 with MuJoCo's C library. It is the only package of the
// project that links MuJoCo.
//
//	MotorCmd (12 motors) --> Sim.Advance --one C call--> for each 2 ms step:
//	                                                       torque = kp(q*-q) + kd(dq*-dq) + tau
//	                                                       strength, saturation, torque-speed line
//	                                                       motor friction, push on the trunk
//	                                                       mj_step, check
//	State <-- Sim.Read   (kinematics, IMU, contacts; forces are those of the last step)
//
// A Model is compiled once and shared. A Sim is one robot: one mjData, and its own copy of the
// model only when its Params change masses, friction or armature. A Batch is many robots as state
// vectors that a few threads swap in and out of one mjData each; the trajectory of a row is the
// same, bit for bit, alone or among others, with any number of threads.
//
// The model (assets/go1_full.xml) has no actuators, damping or joint friction: the motors are
// C code (claw.c). MuJoCo's fatal errors are caught inside C and come back as errors.
//
// The PD law is evaluated at every step of 2 ms, so it is stable up to Kd 6 at any Kp up to 300; from
// Kd 8 a leg in the air trembles. Real motors close this loop much faster.
//
// Proof: go1_policy.onnx (Playground; 50 Hz, kp 35, kd 0.5, true velocity at the IMU) in the full
// model, mean velocity over 2..10 s, beside what the policy's notes say of another model:
//
//	command     vx      vy      wz      notes
//	 1  0   0   1.01    0.01    0.00    1.02  0.01  0.00
//	 0  0   0   0.00    0.00    0.00    0.00  0.00  0.00
//	 1.5 0  0   1.48    0.03    0.01    1.50  0.03 -0.01
//	-1  0   0  -0.98   -0.01   -0.01   -0.99 -0.01 -0.01
//	 0  0.5 0   0.03    0.46    0.02    0.03  0.46  0.02
//	 0  0   1  -0.03    0.06    0.90    0.02  0.04  0.86  (at the IMU ours is 0.03, 0.05)
//
// Nothing was tuned for it: friction 0.6 or 0.8, either cone, Euler or implicitfast, steps of 1 or
// 2 ms, armature 0.004..0.010, motor friction 0..1 N m and the torque-speed line move these by
// less than 0.06.
//
// Env is a Batch as a rollout.Env; sim/task gives it commands, falls, rewards and faults. sim/virtual
// steps a Sim behind the robot's UDP protocol. Needs .deps (make deps).
//
// Joints are in the SDK's order: FR FL RR RL x hip thigh calf; quaternions are w x y z; metres,
// kilograms, seconds, radians, newtons.
package mujoco
