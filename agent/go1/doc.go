// Package go1 is the one place for what is known about the Unitree Go1: joint
// names, limits, poses, kinematics, the observation terms a policy may ask for
// and the map from its actions to joint targets. Simulators and the robot's loop
// call the same code, so that a policy sees on the floor what it saw in training.
//
//	Reading ──▶ Observer (terms, scale, clip, history, clock) ──▶ observation
//	action  ──▶ ActionMap (scale, clip, home, joint order)    ──▶ joint targets
//
// Joint order is the SDK's: FR, FL, RR, RL, each hip, thigh, calf; the index is
// leg*3 + joint. Frames: x forward, y left, z up. Quaternions are w, x, y, z.
// Units are SI. Figures come from the maker's URDF (unitree_ros, go1.urdf) and
// its SDK headers unless a comment says otherwise.
package go1
