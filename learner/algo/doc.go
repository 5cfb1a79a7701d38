// Package algo trains: proximal policy optimisation (Schulman et al. 2017,
// arXiv:1707.06347) with a cloned gait before it.
//
//	rollout.Run ──▶ Trainer.Act ──▶ round to fp16, actor, noise ──▶ action ──▶ Env
//	                                                                           │
//	            Trainer.Record ◀── reward, ends, Final ◀───────────────────────┘
//	                 │ after Steps steps
//	                 ▼
//	 values ─▶ buffer.Returns ─▶ epochs of minibatches: nets.Minibatch, step size by KL ─▶ Report
//
// A Trainer is the policy and the sink of one rollout.Run, which lasts as long as the
// training: between two Steps of the Env, in Record, it learns. So there is one loop for
// training, playing and robots, and nothing runs at the same time as anything else: with
// equal numbers of threads a run is repeatable bit for bit, also across State and Restore.
//
// The first iterations may clone a scripted trot (Gait): the actor learns by squared error
// what the script would do where the actor itself goes. That gives it legs in seconds;
// balance it learns from reward.
//
// learner/cmd/clawlearn opens the Env and a run folder and decides when to stop. What needs
// libtorch sits behind build tag torch.
package algo
