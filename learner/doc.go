// Package learner is the room of off-robot training.
//
//	cmd/clawlearn  the program: train, eval
//	algo           PPO and online policy distillation; one loop with rollout.Run
//	nets           actor, critic, Adam and normaliser over libtorch (build tag torch)
//	buffer         one iteration of transitions: returns, fp16, minibatches
//	run            a training run's folder: checkpoints, curves, TensorBoard
//
// Its packages look at agent/rollout, agent/go1 and onnx/export; nothing under agent, sim or onnx
// looks at it (pinned by the arrows test).
package learner
