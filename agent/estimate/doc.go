// Package estimate tells how fast a Go1 moves and which feet carry it, from what
// its LowState holds. The robot has no velocity sensor; policies that ask for
// base_lin_vel get this.
//
//	gyro, acceleration, gravity ──▶ predict ─┐
//	                                         ├──▶ velocity at the IMU, its sigma
//	q, dq of a foot on the ground ─▶ correct ┘
//	        ▲ trust of each foot
//	joint torques (ground reaction) ─┐
//	foot force (self-calibrated)     ├─▶ contacts
//	foot height, foot speed ─────────┘
//
// The state is the velocity of the IMU in the body's frame (3, m/s) and the
// accelerometer's bias (3, m/s2). It lives in the body's frame, so only the
// direction of gravity is taken from the quaternion: a heading that drifts or
// jumps does no harm. A foot that stands gives one 3-axis measurement: the point
// where it touches the floor does not move. The foot is a ball that rolls, which
// at walking speed shifts its centre by some 5 cm/s; the measurement is taken at
// the floor.
//
// Nobody knows a foot sensor's zero or its gain, so the raw reading is never
// compared with a fixed number: offset and gain are learnt from the other
// sources, and a sensor that does not answer to load is left out.
//
// Proof: go1_policy.onnx in sim/mujoco (full model, 500 Hz), this filter's
// velocity in place of the true one, 30 s each, no falls in any. RMSE in m/s of
// vx, vy, vz with noise of +-0.1 rad/s on joint speeds, 0.02 rad/s, 0.3 m/s2, and
// in brackets with +-1.5 rad/s, 0.2 rad/s, 0.5 m/s2, 0.05 rad of tilt; foot
// sensors with offsets 20..80 that drift by 1/s:
//
//	command          RMSE
//	 0.8  0    0     0.018 0.003 0.006  (0.019 0.016 0.007)
//	 1.5  0    0     0.041 0.004 0.008  (0.038 0.016 0.008)
//	 0    0.5  0     0.004 0.004 0.004  (0.019 0.016 0.007)
//	 0    0    1     0.003 0.003 0.005  (0.016 0.014 0.007)
//
// With foot sensors all 0 or one of them stuck the figures at 0.8 are the same within
// 0.003, and it walked at 0.81 m/s in the mean.
//
// Pure Go, no allocation, no lock, bounded work: agent/control calls Update on
// each 2 ms tick, from one goroutine. Joint order is the SDK's; frames are x
// forward, y left, z up.
package estimate
