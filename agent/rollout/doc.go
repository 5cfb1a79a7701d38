// Package rollout is the one contract between anything that walks and
// anything that makes it walk.
//
//	         action (rows x ActDim)
//	Policy ───────────────────────────▶ Env       simulated rows, a virtual Go1
//	  ▲                                  │        behind sockets, or the real one
//	  └────────────── Step ◀─────────────┘
//	    observations, rewards, ends, what the motors really got
//
// An [Env] states a [Spec]; a policy file carries the Spec it was trained on;
// [Spec.Fits] names the first difference, so that a wrong policy fails when it
// is loaded and not on the floor. [Run] is the only loop: the learner calls it
// with a torch policy and a buffer, the agent with an ONNX policy and the robot,
// clawsim play with a zero, random or ONNX policy.
//
// # What happens when an episode ends
//
//	simulated Env (Spec.AutoReset)      robot Env
//	Obs    first of the new episode     last of the old one
//	Final  last of the old episode      last of the old one
//	next   Step continues               Step is refused until Reset; motors damped
//
// Terminated (fell, or physics went bad) and TimedOut (only the clock ended)
// are never both true for a row: a fall wins.
//
// The package is pure Go and imports nothing of the project.
package rollout
