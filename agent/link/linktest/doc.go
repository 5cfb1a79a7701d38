// Package linktest is a fake Go1 in process, on real UDP sockets, for tests of the agent that want no physics.
//
//	test ── New ──► Robot ◄── LowCmd, HighCmd ── agent/link, agent/control
//	  │               │  ────  LowState, HighState ───►
//	  │               ├─ record of every frame received: time, class (damping, torque, zero, other), bytes
//	  └── hooks ──────┴─ alter, drop, delay answers; send short, long, corrupt, foreign datagrams
//
// Its joints are kinematic: each follows its command with a first-order lag, carries no weight and knows no floor, and its
// trunk never moves. Nothing about walking can be shown with it; sim/virtual is the Go1 with physics. What a
// real one does where no public source says is chosen here and named in the comments.
//
// By default it runs in lockstep: each valid LowCmd moves it on by 2 ms and is answered at once, so a test needs no
// sleep and a busy machine changes nothing. Config.FreeRunning moves it on by the time that has passed instead.
package linktest
