// Package export writes the learner's policies as ONNX files that describe
// themselves.
//
//	Network: layers, normaliser ─┐
//	contract.Contract ───────────┼▶ Encode ─▶ Verify ─▶ sync, rename ─▶ policy.onnx
//	pairs: what the trainer's    │              │
//	own network computes ────────┘              └ ONNX Runtime differs: ErrParity, nothing is written
//
// The graph is plain: opset 17, input obs [batch, observation], output actions
// [batch, joints], any number of rows; the network's mean action, as a robot
// walks by it:
//
//	obs ─▶ Sub mean ─▶ Div std ─▶ Gemm ─▶ Elu ─▶ ... ─▶ Gemm ─▶ actions
//	       └ only if Normaliser.InGraph ┘
//
// An actor of a history has its encoder before that, and the velocity that it estimates is the
// tensor "velocity" within the graph; a contract has one output, the actions:
//
//	          ┌▶ Reshape ─▶ Transpose ─▶ Conv ─▶ Elu ─▶ ... ─▶ Flatten ─┬▶ Gemm ─▶ Elu ─▶ latent ─┐
//	obs ... ──┤                                                         └▶ Gemm ─▶ velocity ──────┼▶ Concat ─▶ Gemm ─▶ ...
//	          └▶ Slice ─▶ newest frame ───────────────────────────────────────────────────────────┘
//
// The metadata holds the contract, with golden pairs and the observation's mean
// and std, and the keys of mjlab, for its tools.
//
// A verification loads the model twice, and ONNX Runtime keeps some memory of each
// load (see onnx/session): a trainer exports at its best checkpoints, not at every
// iteration.
//
// Callers: the learner.
package export
