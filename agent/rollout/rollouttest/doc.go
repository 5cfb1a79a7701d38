// Package rollouttest proves that a rollout.Env keeps the contract of package
// rollout.
//
//	func TestConformance(t *testing.T) {
//		rollouttest.Run(t, rollouttest.Harness{New: ..., Fall: ...})
//	}
//
// Every Env calls it: simulators, worker clients, the robot's against a robot in
// process. [Toy] is the smallest Env that passes, for newcomers to read. The
// suite's own tests break the toy in many ways and want each noticed.
package rollouttest
