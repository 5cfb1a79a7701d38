// Package guard damps a robot whose agent has stopped. It is a process of its own, `clawagent guard`, that watches the agent's control
// loop through shared memory and holds a duplicate of its socket, so that damping leaves from the address that the robot listens to.
//
//	clawagent run                                                        clawagent guard
//	┌─────────────┐  agent's page: beat, epoch, torque, window, until    ┌─────────────┐
//	│ loop, 2 ms  │ ───────────────────────────────────────────────────▶ │ loop, 1 ms  │
//	│ FIFO 80     │ ◀─────────────────────────────────────────────────── │ FIFO 90     │
//	└──────┬──────┘  guard's page: session, latched, trips, beat         └──────┬──────┘
//	       │                                                                    │ damping, only
//	       └──────────────▶ one UDP socket, held by both ◀──────────────────────┘ while the beat is old
//
// The pages are passed when the agent registers, over a Unix SEQPACKET socket on which the agent in turn passes its socket
// (SCM_RIGHTS). Each side can write only its own page: what runs wild in the agent cannot take a latch away.
//
// agent/control calls Watch from its loop; agent/cmd/clawagent runs the Guard and, in `run`, the Client.
//
// # Who may send what
//
// An epoch is one arming of one agent: session<<32 | count. A person begins it, by arming and by damp after a trip.
//
//	loop, before a torque frame:  torque = 1; window = 1; own lateness? latched? session?  send;  window = 0
//	guard, beat older than stale: latched = epoch;        window?                          trip; damping every 2 ms
//
// Both sides store first and look second (Dekker), with sequentially consistent atomics: either the loop sees the latch and sends no
// torque, or the guard sees the window open. Then it waits for it to close: 200 us, or 4 ms where the loop's thread is of ordinary
// priority and may merely have lost its core, or is not known by its number (an agent in a PID namespace of its own). A process that is stopped inside
// keeps it open, and would send one more torque frame when it goes on: it is killed. So no torque frame is handed to the kernel after
// LatchedNs.
//
// Session 0 is nobody's: an agent that finds it was let go, and damps by itself. It gets no torque until it has a guard again.
//
// A latch belongs to its epoch and ends with it. Once the loop ticks again it damps by itself and the guard is quiet. A beat that is
// old while the mode gives no torque (listen, damp) is no trip: the guard damps in the loop's place until it ticks again. An agent that
// is gone (its connection has ended, so every thread of it has) need not grow stale.
//
// # When it keeps silent
//
// Epoch 0 is idle: nothing is sent. A robot that has been silent may have been switched off and come back in its sport mode, where a
// damping frame makes it fall limp: two seconds after its last state, or at the time that the loop said in its page, the guard stops,
// looks for sport mode, and knocks with a few frames each time that it is shown to be off, as the loop does.
//
// # Its life
//
// Started by `run`, it outlives the agent. A next agent takes its place by `take`, which ends a session whose agent is gone and
// releases the socket, and then registers; while the old agent lives that is refused. It ends by itself when the agent has ended in
// order, which takes a robot that has shown it is damped, or is gone and the robot has been silent for ten minutes: a cable may come back.
// A robot that was a program of this machine and has ended is given up after ten seconds. Signals do not end it while it guards.
package guard
