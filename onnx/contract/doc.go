// Package contract reads and writes what a policy file says about itself: the
// [rollout.Spec] it was trained on, the mean and std of its observations, golden
// pairs, and where it came from.
//
//	policy.onnx ─▶ Read ─▶ File{SHA256, Model, Contract, Source}
//	                │         ├─ Model: tensors, opset, producer, files of weights
//	                │         └─ Contract, found in this order:
//	                ├─ "metadata"  metadata_props["openclaw.contract"] in the file
//	                ├─ "beside"    policy.onnx.contract.json
//	                └─ "known"     importer/known, by the file's sha256
//	               Load = Read + there is a contract + it matches the graph
//	                      + every file of weights is there
//
// The model is walked field by field and never given to ONNX Runtime here, so
// that a file from a stranger can be looked at on any machine. A contract that is
// present but broken is an error: the next place is not tried.
//
// Callers: onnx/session, clawpolicy, the agent, the simulators and the learner's
// exporter. JSON is strict: unknown, repeated, missing and null members, members
// in another case and numbers that are not finite are refused by name.
package contract
