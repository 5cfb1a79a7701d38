// Package control owns the robot: its 500 Hz loop, its modes, and the rollout
// Env that a policy drives it through.
//
//	             every 2 ms, absolute deadlines, one OS thread
//	       ┌──────────────────────────────────────────────────────┐
//	Link ──▶ states ─▶ estimate ─▶ judge ─▶ mode ─▶ frame ─▶ judge ─▶ Link
//	       └───┬───────────▲──────────────▲───────────────────┬───┘
//	           │ Reading   │ targets      │ requests          │ Snapshot
//	           ▼           │              │                   ▼
//	      policy thread: rollout.Run   Arm, SetMode, ...   HTTP, logs
//
// A guard in a process of its own (agent/guard) watches the loop's beat in
// shared memory. The loop looks at the guard's latch right before each torque
// frame, and a person's act alone begins a new epoch.
//
// The loop takes no lock, allocates nothing, writes no log and does bounded
// work. Others hand it values through slots of which each side owns its own
// (triple), and read what it publishes the same way, so that nothing they do
// can delay a frame.
//
// # Priority
//
// The loop's thread alone is raised to SCHED_FIFO 80, last, and read back. All
// others of the program stand at FIFO 1 (agent/cli.Ahead) and not at ordinary
// priority, against the first design: Go's scheduler now and then takes even a
// locked thread's goroutine away, and only another thread can give it back;
// beside busy ordinary programs that took up to 60 ms.
//
// # Modes
//
//	idle ──arm──▶ listen ──stand──▶ stand ──policy──▶ policy
//	                │ ▲               │  ▲ sit           │ sit
//	                ▼ │     ┌──sit────┘  └───────────────┤
//	   any ──damp──▶ damp ◀─┴────────────────────────────┘
//	   any ──estop─▶ estop ──damp──▶ damp
//
// In idle nothing is sent at all: a Go1 that stands under its own controller
// goes limp at the first foreign frame. Whatever the judge latches, a person
// leaves by damp and then stand.
package control
