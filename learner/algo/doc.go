// Package algo trains: proximal policy optimisation (PPO, Schulman et al. 2017,
// arXiv:1707.06347), with a cloned gait before it and a teacher beside it.
//
//	rollout.Run ─▶ Trainer.Act ─▶ round to fp16 ─▶ actor + noise ──┐ who drives this
//	                                   └─────────▶ teacher's label ┴─▶ row, this step? ─▶ action ─▶ Env
//	                                                                                                │
//	            Trainer.Record ◀── reward, ends, Final ◀────────────────────────────────────────────┘
//	                 │ after Steps steps
//	                 ▼
//	 values ─▶ buffer.Returns ─▶ epochs of minibatches: nets.Minibatch, step size by KL ─▶ Report
//
// A Trainer is the policy and the sink of one rollout.Run, which lasts as long as the
// training: between two Steps of the Env, in Record, it learns. So there is one loop for
// training, playing and robots, and nothing runs at the same time as anything else (but for
// Config.Async, below): with equal numbers of threads a run is repeatable bit for bit, also
// across State and Restore. After the first iteration it allocates nothing in a step.
//
// learner/cmd/clawlearn opens the Env, the teacher and a run folder and decides when to stop.
// What needs libtorch sits behind build tag torch.
//
// # Cloning
//
// The first iterations may clone a scripted trot (Gait): the actor learns by squared error
// what the script would do where the actor itself goes. That gives it legs in seconds;
// balance it learns from reward.
//
// # A history, and the velocity
//
// A Go1 senses no velocity, but some frames of what it senses tell it. With Config.Net.Encoder
// the actor reads net.frames of them (task.WalkHistorySpec: the group policy by frames, the
// newest last, so that the contract says it and an agent fills it) through convolutions over
// time:
//
//	frames ─▶ conv, ELU ─▶ conv, ELU ─┬▶ latent ───┐
//	                                  └▶ velocity ─┼▶ the actor's layers ─▶ mean
//	newest frame ──────────────────────────────────┘
//
// In each minibatch net.velocity_weight times the mean over all its steps, whoever drove, of
// the mean over vx, vy and vz of (estimate - true)² is added to the loss; the true one is the
// critic's base_lin_vel, mirrored with a mirrored sample. No gradient of the other losses goes
// through the estimate, which stays one (concurrent estimation, Ji et al. 2022,
// arXiv:2202.05481); through the latent it does. Cloning trains the estimate too.
// Report.VelocityRMSE tells how good it is.
//
// # On-policy distillation
//
// Config.OPD names a teacher T. In each row and step it drives with probability mix, drawn
// from a stream of its own, else the student pi with its noise; both see the same Step. What
// is executed, the label T(s), the student's log-probability of what was executed and who drove
// are stored. A minibatch is judged by
//
//	L = mean over student's steps of  max(-A r, -A clip(r, 1 ± c)) - e H       r = pi(a|s) / pi_old(a|s)
//	  + v · mean over all steps of    (V(s) - target)²
//	  + w · mean over labelled steps of
//	        nll   sum over joints of  ((T - mu) / sigma)² / 2 + log sigma + log(2 pi) / 2
//	        mse   mean over joints of (T - mu)²
//	        kl    sum over joints of  log(sigma / sigma_T) + (sigma_T² + (T - mu)²) / (2 sigma²) - 1/2
//
// each mean over its own count of the whole minibatch. mix and w follow straight lines in
// iterations and then stay. With both 0 everything is PPO's alone, bit for bit.
//
// A teacher's step. T is deterministic, so the student would have acted like that with density
// 0 against infinity: rho = 0 (package buffer). No surrogate, entropy, clip fraction, KL or
// share of the advantages' mean and deviation comes from it, and V keeps its value there; the
// step before it sees the reward and V(s'), no further. So V is what the student is worth, not
// the mixture. If the teacher drives every step of a minibatch the actor takes no surrogate
// step and the learning rate is not steered; if it drives always (mix 1) the critic learns
// nothing either: leave the student some steps.
//
// The deviation is detached by default: of the three losses nll can be lowered by a smaller
// sigma alone once mu is near, which ends exploring. Compare runs by Report.LabelRMSE, which
// means the same for all losses. The slope of nll (and kl) by mu is (mu - T) / sigma², of mse 2
// (mu - T) / 12: with sigma 0.7 and 12 joints a weight of 0.1 is 1.2 of mse, and grows as sigma
// falls.
//
// Teachers:
//
//	gait         the scripted trot, for as long as its weight lasts
//	privileged   an actor that reads another group, "critic": a checkpoint of a run with
//	             net.group critic (Options.TeacherState), or an ONNX file (Options.Teacher)
//	snapshot     the student of every refresh_iterations'th iteration
//	ema          average of the students so far, each iteration keeping ema_decay of itself
//	file         any policy with a contract (Options.Teacher)
//
// All act without noise. Those from outside are compared with the Env by name before anything is
// learnt: robot, joints, home, gains, rate, each term of the group. Only rad per unit of action
// may differ, since a label can be said in the student's; the term "actions" is shown in theirs.
//
// # Where this differs from the text it grew from
//
// The text (rows S5 to S8 of the README's map) stores both actions, but not who acted nor with
// what probability, and learns from all steps as if the student had taken them: a ratio against
// a density that the action was not drawn from, and a value of the mixture. Here the two are
// told apart, as above. Its loss is added once a rollout, to a PPO loss of several epochs; ours
// is part of each minibatch. Its teacher, the student of 50 epochs before, is one of five.
//
// # What is published
//
// What is evaluated, written as a policy and taken by another run as its teacher is not the newest
// weights but their average (Config.Average, after Polyak and Juditsky): each iteration keeps 0.9 of
// it. A KL target of 0.08 learns fast and lets every iteration stumble differently; the average does
// not. Measured (preset walk, seeds 1 to 3, nothing else different: training does not know of it), rows of
// eval_v1 that fall, %: newest weights at 0.84, 1.09, 1.34 M steps 0.8 2.3 0.0, 49 0.8 13, 2.3 0.0 0.8;
// average at 0.85, 1.11, 1.37 M steps 1.6 0.8 0.8, 24 2.3 3.1, 0.8 0.0 0.8. The errors lag a little at
// first and are smaller from 1.1 M steps on.
//
// # Ahead
//
// With Config.Async collecting goes on while the iteration before is learnt from, by a copy of the
// networks from before that:
//
//	Run's goroutine  collect 0 by p0 │ collect 1 by p0 │ collect 2 by p1 │ collect 3 by p2 │
//	learner's                        │ 0: p0 ─▶ p1     │ 1: p1 ─▶ p2     │ 2: p2 ─▶ p3     │
//
// Where a bar stands both wait for each other, Each is called, and the two storages change hands:
// so what is learnt is exactly one update behind (iteration 0 not), however long either takes, and
// is as repeatable as without. A State holds the iteration that was collected and not yet learnt
// from. Cloning does not run ahead.
//
// What a policy mu collected is learnt from by decoupled PPO (Hilton et al. 2021,
// arXiv:2110.00641): ratio, clip and divergence are taken against pi_start, the policy at the
// update's start, and the surrogate of each step is weighed by the constant
// rho = min(1, pi_start/mu), which is also the rho of the returns (package buffer). Report.Rho is
// its mean.
//
// # What computes the actions
//
// The networks' own C++ forward pass does, in the rollout as in the update. Measured for 256 rows
// (BenchmarkRolloutStep; 47-128-128-12, one thread, processor time on a busy machine): C++ 171 us,
// ONNX Runtime 371 us, TorchScript through gotch 878 us with 431 kB of garbage. The C++ alone
// also spreads over threads, and needs neither a session nor tensors of new weights for each
// iteration. That all three act alike to the update is TestFirstRatioOfBackends.
//
// # Bad numbers
//
// An iteration in which something seen or acted is not a number is not learnt from, nor one
// whose returns are not finite, nor a minibatch whose loss or gradient is not. Each is counted
// in Report.Skipped; three in a row end Run with ErrDiverged, with parameters as they were.
// Recover then takes back what an earlier State knew. An action that is not a number is
// executed as 0: an Env would refuse it.
//
// # Rounding and the normaliser
//
// Observations and actions are rounded to fp16 first, then acted on, and the normaliser moves
// between learning from an iteration and collecting the next: so the first minibatch's ratios
// are 1 (Report.FirstRatioError, a few 1e-6; mirrored samples start elsewhere, see nets).
// Cloning has no ratios; there it moves before.
package algo
