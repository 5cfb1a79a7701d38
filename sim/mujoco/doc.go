// Package mujoco simulates a Unitree Go1 with MuJoCo's C library. It is the only package of the
// project that links MuJoCo.
//
//	MotorCmd (12 motors) --> Sim.Advance --one C call--> for each physics step:
//	                                                       torque = kp(q*-q) + kd(dq*-dq) + tau
//	                                                       strength, saturation, torque-speed line
//	                                                       motor friction, push on the trunk
//	                                                       step, check
//	State <-- Sim.Read   (kinematics, IMU, contacts; forces are those of the last step)
//
//	action (rows) --> Env.Step --> threads take chunks of rows from a Batch:
//	                                 targets, latency --> one C call a chunk --> fall, reward,
//	Step  <------------------------- observations, next episode <-------------- metrics
//
// A Model is compiled once and shared. A Sim is one robot: one mjData, and its own copy of the
// model only when its Params change masses, friction or armature. A Batch is many robots as state
// vectors that a few threads swap in and out of one mjData each; the trajectory of a row is the
// same, bit for bit, alone or among others, with any number of threads. An Env is a Batch in a
// task.World behind rollout.Env; its rows can be saved and restored (AppendState), also bit for bit.
// Evaluate lets a policy walk in a task.Evaluation and scores it.
//
// There is one robot, assets/go1_full.xml, and several ways to simulate it (physics.go): Full is the
// judge, Lean is for training, Peer and Coarse have the settings of simulators of others. Lean
// keeps the floor and the feet and steps stage by stage, which gives the bits of mj_step. What it
// costs, on a core of an AMD EPYC with nothing else to do: 7.8 us a step of 5 ms, 43 % of that
// the constraint solver, 32 us a control step with reading and writing the row; rewards, noise,
// metrics and 110 observed numbers take 1.2 us beside. Things that were measured and are off: an
// elliptic cone, sparse Jacobians, MuJoCo's own actuators, sensors and joint friction.
//
// The model has no actuators, damping or joint friction: the motors are C code (claw.c). MuJoCo's
// fatal errors are caught inside C and come back as errors.
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
// In eval_v1 (lean) the same policy scores 0.080 m/s, 0.114 rad/s and 1.6 % falls, 90 W; lean and full
// differ by 0.02 m/s at most in the means above.
//
// sim/task gives an Env commands, falls, rewards, variation and faults. sim/virtual steps a Sim behind
// the robot's UDP protocol. Needs .deps (make deps).
//
// Joints are in the SDK's order: FR FL RR RL x hip thigh calf; quaternions are w x y z; metres,
// kilograms, seconds, radians, newtons.
package mujoco
