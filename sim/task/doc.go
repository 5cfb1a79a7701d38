// Package task is what a simulated Go1 is asked to do, row by row and whatever
// simulates it: the world as data, velocity commands, what varies from episode to
// episode, when a row counts as fallen, what it earns, how well it does, and single
// faults put between policy and robot.
//
//	World ──Vary.Draw──▶ Episode (friction, masses, gains, offsets, latency)
//	   │                    │                          each step
//	   │      ┌─────────────┼──────────────────────────────────────────────────┐
//	   │      │             ▼                                                   │
//	   │      │ physics ▶ Reading ▶ Noise.Corrupt ▶ Row.Sense ▶ go1.Observer ▶ policy
//	   │      │  ▲  │                                  ▲                        │
//	   │      │  │  │            Commander ▶ command ──┘                        │
//	   │      │  │  └▶ Moment ▶ Falls.Fell ▶ Measure, Reward.Score ▶ metrics    │
//	   │      │  │            └▶ Privileged ▶ critic            └▶ Score        │
//	   │      │  └─ Pushes.Advance, Vary.Delay, Vary.Lost ◀ Row.Execute ◀ action
//	   │      └─────────────────────────────────────────────────────────────────┘
//	presets Nominal, Walk, Ship; JSON by DecodeWorld; eval_v1.json by EvalV1
//
// sim/mujoco builds its rollout.Env and its evaluation from these parts; clawsim lists
// the faults. Everything is plain Go. Random numbers come from the seed, the row's
// number and the purpose alone, so that a row does the same alone or among others, and
// after New nothing allocates. What changes in a row (Commander, Row, Episode, Rand) is
// saved by AppendState and read back by RestoreState.
//
// Units are SI; joints and legs are in the SDK's order unless a comment says policy
// order.
package task
