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
// The loop takes no lock, allocates nothing, writes no log and does bounded
// work. Others hand it values through slots of which each side owns its own
// (triple), and read what it publishes the same way, so that nothing they do
// can delay a frame.
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
