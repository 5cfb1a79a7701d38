// Package buffer stores one iteration of collected transitions, works out their returns
// and cuts them into minibatches.
//
//	rollout.Run ─▶ sink of learner/algo ─▶ Buffer [step, row] ─▶ Returns ─▶ Normalise
//	                    │                    ▲                                  │
//	                    └─ Round ─▶ Encode ──┘          Minibatches: numbers of transitions
//	                       (then act)                                          │
//	                                                     learner/nets reads the same slices
//
// learner/algo fills a Buffer and asks it for returns and minibatches; learner/nets
// reads its slices. The package is plain Go, knows neither, and allocates only in New.
//
// # Returns
//
// For the transition of one row at step t, with s' the observation that truly came
// next:
//
//	V(s'_t)   Value of step t+1; LastValue after the last step of the iteration;
//	          FinalValue where the clock ended the episode; not asked for after a fall
//	delta_t = r_t + gamma (1 - terminated_t) V(s'_t) - V(s_t)
//	A_t     = delta_t + gamma lambda (1 - ended_t) X_{t+1}     Advantage
//	X_t     = rho_t A_t                                        X after the last step is 0
//	target  = V(s_t) + X_t                                     Target
//
// A fall and a time-out both end the chain; only a fall also takes the future away. The
// clock is the trainer's, not the world's: a robot whose time is up would have walked
// on, so V of the observation it had reached stands for the rest. That observation is
// rollout.Step.Final and not the next episode's first, which Value of step t+1 belongs
// to, nor the one that was acted on. With those wrong, a value that was right is pulled
// off: in a chain that goes back and forth between A, which gives 1, and B, which gives
// 0, with gamma 0.9, V(A) is 5.263 and the target of a time-out while in A is 1 + 0.9
// V(B) = 5.263; with V(s_t) in place of V(s'_t) it would be 5.737 (rsl_rl, issues 20
// and 151).
//
// Where physics went bad the transition is not Valid. It never comes in a minibatch,
// and the chain is cut before it: the step before has X_{t+1} = 0 and bootstraps from
// V(s'_t), the value that was given before anything was bad, as if nothing had ended. A
// row whose physics breaks has not fallen, and nothing is known of what would have
// come.
//
// # Who acted
//
// rho_t = min(1, pi(a_t|s_t) / mu(a_t|s_t)) says how much of step t is the student's
// own doing, mu being the policy that drove it: 1 for a student's own step, 0 for that
// of a deterministic teacher, whose action the student would have taken with density 0
// against infinity. With rho = 1 everywhere A is generalised advantage estimation
// (Schulman et al. 2016, arXiv:1506.02438). With rho below 1 the target is that of
// V-trace (Espeholt et al. 2018, arXiv:1802.01561) with both its clips at 1 and c =
// lambda rho.
//
// So V learns what the student is worth also while a teacher drives part of the time.
// In one state where the student's action gives 0 and the teacher's 1, each driving
// half of the steps, V goes to 0; with rho = 1 it would go to the mixture's
// 0.5/(1-gamma), and every step of the student's would look like a loss. A teacher's
// step leaves its own V as it is (X = 0) and cuts the trace: the step before sees its
// reward and V(s'), no further. Nothing is learnt of what a teacher's action leads to;
// that is what Label is for.
//
// A stochastic teacher T may use its density, but min(1, pi/T) on its steps beside 1 on
// the student's weighs an action by (1-mix) pi + mix min(pi, T): the fixed point lies
// between the student's value and the mixture's, nearer to the student's. With pi =
// (3/4, 1/4), T = (1/4, 3/4), mix 1/2 and reward 1 for the second action it is 1/3, not
// 1/4, of 1/(1-gamma). Use rho = 0 where that matters.
//
// Steps of a policy that is some versions old (asynchronous collection) have rho =
// min(1, pi_start/mu) in the same formula, pi_start being the policy at the update's
// start.
//
// Normalise makes the advantages of valid student steps mean 0 and standard deviation 1
// over the whole iteration, and all others 0.
//
// # Where the text this project grew from is wrong
//
// Its notes (rows S3 and S4 of the README's map) describe a rollout that we do not
// follow in three places. Take four steps that give 1, 1, 1 and 3 with V = 10
// everywhere, gamma 0.9, lambda 0.95, so that an ordinary step is exactly as good as
// foreseen, and a fall at step 1:
//
//	step                             0       1       2      3
//	advantage                     -7.695  -9       1.71   2
//	dones read one step late      -9       0       0      0 (never filled)
//	a value added at every end     0       0       1.71   2
//
// The test TestFiguresOfThePackageComment works this table out. What is wrong:
//
//   - It reads the flag of step t+1 where that of step t belongs. The step that fell is
//     not blamed: it even bootstraps from the next episode's first value. The step
//     before it is, as if it had fallen, and what the fall itself cost never reaches it.
//   - It leaves the last step's advantage at zero. The policy never learns from that
//     step, and all before it miss what it would have carried back: here a surprise of
//     +2. V(s_T) is known; it bootstraps.
//   - It adds a value to the reward of every row that is reset. For a time-out whose
//     true last observation is valued that is right (it is how FinalValue enters). For
//     a fall it pays the robot for the walk it can no longer take: falling costs nothing.
//
// # fp16
//
// Observations and actions, nearly all of a Buffer, are stored as IEEE 754 binary16, in
// half the memory; rewards, values, log-probabilities and advantages stay float32. The
// order is what matters: Round first, then let the policy see and the Env execute the
// rounded numbers, score them, and Encode, which then loses nothing. So an unchanged
// policy scores a stored action exactly as it did, and the ratio of the first minibatch
// is 1. Rounding afterwards would put it off by the policy's slope times half a unit in
// the last place.
//
// Numbers beyond ±65504 saturate and are counted: an infinity in an observation would
// be NaN after one matrix product. NaN stays NaN and is counted: hiding it would hide
// the fault. The conversion is our own: 3 times as fast as github.com/x448/float16 for
// encoding (1.8 against 5.7 ns a number), with the counting, and tested at every value
// and every middle.
package buffer
