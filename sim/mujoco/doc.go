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
// sim/virtual steps a Sim behind the robot's UDP protocol, sim/task builds a rollout.Env on a
// Batch. Needs .deps (make deps).
//
// Joints are in the SDK's order: FR FL RR RL x hip thigh calf; quaternions are w x y z; metres,
// kilograms, seconds, radians, newtons.
package mujoco
