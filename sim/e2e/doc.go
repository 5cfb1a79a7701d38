// Package e2e holds the tests in which the programs meet: the agent and the virtual robot, over real sockets, at walking speed.
// It has no code of its own.
//
//	clawagent run --lockstep ──LowCmd──▶ clawsim robot --lockstep     built once by TestMain
//	      ▲        ◀──LowState──              ▲            │
//	      │ HTTP                 faults ──────┘            ▼ log
//	      └───────────── test ◀────────────────────────────┘
//
// What arrives at the robot is judged by the robot's own log, never by what the agent says it sent; the agent's words count
// only for what it tells people (GET /api/v1/state). Time is the robot's: in lockstep it moves 2 ms a command, some 25 times
// faster than real time on a quiet machine, and how busy the machine is changes nothing in the results.
//
// Tests of rows of the safety table (agent/safety) come in pairs: above a threshold the act and its age, below it 60 s in
// which nothing happens.
//
// # Chaos
//
// TestChaosLockstep (troubles of the robot and its wires), TestChaosRealTime (what systems and people do to processes and machines) and
// TestChaosKills draw what happens from a seed, which a failure prints with the command that shows it again. They share one referee, who
// reads every frame in the robot's log and knows nothing of the agent but the acts of its people: nothing before somebody arms, no
// torque behind damping until somebody lets it stand, no number out of its range, one address, and an end that fits the worst that
// happened. People's acts are marks in that same log (a kick of nothing), so that no two clocks need be compared.
//
// # Machines that stand still
//
// Where time is the point a test measures beside it how long the machine stood still (stallMeter, a process of its own). A stall is a
// reason for what it explains and for nothing else: a robot that it damped before anything was done is walked again, a trip that it does
// not explain fails, and what it let not be done in some tries is not done, neither passed nor failed. Bounds grow by the stall that was
// measured, and what came before what is told by the kernel's stamps and the robot's clock. Excuses are counted case by case, and a full
// soak fails where they are too many, or where a kind of blow was never struck.
//
// # In one process
//
// Most rows are tested on the built programs. Some cannot be brought about from outside them: a policy that hangs or asks for
// nonsense, a control loop that wakes late, a command that comes at an exact tick, a stop with no HTTP server in the process,
// and what holds for single ticks only (warnings, the estimate's error). For those a control.Loop runs in the test, in front
// of the virtual robot, over the same sockets, and the test looks at every tick (rig).
package e2e
