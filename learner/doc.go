// Package learner is the room of off-robot training: PPO and online policy
// distillation on simulated rollouts. Nothing of it is built yet; its packages
// will look at agent/rollout, agent/go1 and onnx/export, and nothing under
// agent, sim or onnx may look at it (pinned by the arrows test).
package learner
