// Package task is what a simulated Go1 is asked to do, row by row and whatever
// simulates it: velocity commands, when it counts as fallen, how well it does,
// and single faults put between policy and robot.
//
//	Commander ──▶ command ─┐
//	                       ▼
//	physics ──▶ Reading ──▶ Row.Sense ──▶ go1.Observer ──▶ policy
//	   │                                                     │
//	   ├──▶ Falls.Fell                                       ▼
//	   └──▶ Track (metrics, reward)      motors ◀── Row.Execute ◀── action
//
// sim/mujoco builds its rollout.Env from these parts; clawsim play lists the
// faults. Everything is plain Go and draws its random numbers from the seed and
// the row's number alone, so that a row does the same alone or among others.
//
// Units are SI; joints are in the SDK's order unless a comment says policy order.
package task
