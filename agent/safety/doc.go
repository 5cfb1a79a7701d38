// Package safety is the judge of everything that goes to the motors.
//
//	LowState ──▶ Judge.State ──┐
//	                           ├──▶ Verdict: the worst thing so far, latched
//	ages     ──▶ Judge.Tick  ──┘
//	LowCmd   ──▶ Judge.Frame ──▶ the same frame inside its limits, or a refusal
//
// It is pure: time is an argument, there is no I/O, no allocation and no lock,
// so that the same states give the same verdicts on a laptop, in a replay and on
// the robot. agent/control calls it once per tick and does what the verdict
// says. The damping frame does not pass through here: it must be sendable when
// everything else is wrong.
//
// Limits are configuration ([Config]); the defaults are the project's safety
// table. Faults have numbers that are never reused ([Faults]); FAULTS.md, made
// from the same table, says for each what it means and what to do.
package safety
