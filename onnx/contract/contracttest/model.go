package contracttest

import (
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/internal/modelproto"
)

// Model is a small ONNX model to be written.
type Model struct {
	Inputs, Outputs []contract.Tensor
	Nodes           []Node
	Weights         []Weight
	Metadata        []contract.Metadata
}

// Node and Weight are parts of a Model.
type (
	Node   = modelproto.Node
	Weight = modelproto.Weight
)

// Free is a dimension whose size is not fixed.
const Free = -1

// Linear is actions = obs * w + bias, for batch rows (Free: any). w is (obs,
// actions), row-major; len(bias) is the number of actions.
func Linear(batch int64, w, bias []float32) *Model {
	acts := int64(len(bias))
	obs := int64(len(w)) / acts
	return &Model{
		Inputs:  []contract.Tensor{{Name: "obs", Type: contract.Float32, Dims: []int64{batch, obs}}},
		Outputs: []contract.Tensor{{Name: "actions", Type: contract.Float32, Dims: []int64{batch, acts}}},
		Nodes:   []Node{{Op: "Gemm", In: []string{"obs", "w", "bias"}, Out: []string{"actions"}}},
		Weights: []Weight{{Name: "w", Dims: []int64{obs, acts}, Data: w}, {Name: "bias", Dims: []int64{acts}, Data: bias}},
	}
}

// Toy is a contract for a robot of two joints whose observation has 3 numbers:
// "tilt" (1) and "joint_pos" (2). It has mean and std and no golden pairs.
func Toy() *contract.Contract {
	return &contract.Contract{
		Version: contract.Version,
		Name:    "toy",
		Spec: rollout.Spec{
			Robot: "toy", Joints: []string{"left", "right"}, Home: []float32{0.1, -0.1},
			Action: rollout.Action{Scale: []float32{0.5, 0.25}}, Kp: []float32{20, 20}, Kd: []float32{0.5, 0.5},
			PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
			Command: rollout.Command{Vx: [2]float32{-1, 1}},
			Groups: []rollout.Group{{Name: "policy", Layout: rollout.ByTerm, Terms: []rollout.Term{
				{Name: "tilt", Size: 1, Scale: 1, History: 1, Sensed: true},
				{Name: "joint_pos", Size: 2, Scale: 1, History: 1, Sensed: true},
			}}},
		},
		Normaliser: &contract.Normaliser{Mean: []float32{0, 1, 2}, Std: []float32{1, 0.5, 0.1}},
	}
}

// Bytes writes the model: IR version 8, opset 13.
func (m *Model) Bytes() []byte {
	return (&modelproto.Model{
		IRVersion: 8, Opset: 13, Producer: "contracttest", Graph: "toy",
		Inputs: m.Inputs, Outputs: m.Outputs, Nodes: m.Nodes, Weights: m.Weights, Metadata: m.Metadata,
	}).Append(nil)
}

// Float32s is how ONNX stores numbers, in the model or in a file beside it.
func Float32s(v []float32) []byte { return modelproto.Float32s(v) }
