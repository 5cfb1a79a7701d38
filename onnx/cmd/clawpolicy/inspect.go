package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/session"
)

func newInspect(loader *cli.Loader[config]) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show a policy's tensors and contract, and replay its golden pairs",
		Long: `inspect shows what is in a policy file: tensors, the contract (joints, gains, home pose, observation, rates, command
ranges) and where it was found, whether the golden pairs come out as stated, and whether a Go1 can drive it.

A file without a contract shows its tensors. It fails (1) for a file that cannot be used as it claims: not ONNX,
truncated, a contract that does not match the graph, weights missing, golden pairs that differ.`,
		Example: "clawpolicy inspect policy.onnx\nclawpolicy inspect policy.onnx --json | jq .contract.kp",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loader.Load()
			if err != nil {
				return err
			}
			r, err := inspect(args[0], &cfg)
			if asJSON {
				if r == nil {
					r = &report{File: args[0]}
				}
				if err != nil {
					r.Error = err.Error()
				}
				return errors.Join(err, cli.PrintJSON(cmd.OutOrStdout(), r))
			}
			if r != nil {
				if perr := r.print(cmd.OutOrStdout()); perr != nil {
					return perr
				}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	loader.AddFlags(cmd.Flags())
	return cmd
}

// report is what inspect found; its JSON is the program's interface for scripts.
type report struct {
	File           string             `json:"file"`
	SHA256         string             `json:"sha256"`
	Bytes          int                `json:"bytes"`
	IRVersion      int64              `json:"ir_version"`
	Opset          int64              `json:"opset"`
	Producer       string             `json:"producer"`
	Inputs         []tensor           `json:"inputs"`
	Outputs        []tensor           `json:"outputs"`
	External       []external         `json:"external,omitempty"`      // files of weights
	MetadataKeys   []string           `json:"metadata_keys,omitempty"` // other systems' keys too
	ContractSource contract.Source    `json:"contract_source"`         // "": there is none
	Contract       *contract.Contract `json:"contract,omitzero"`
	Golden         *golden            `json:"golden,omitzero"`
	Go1            *fit               `json:"go1,omitzero"`
	Error          string             `json:"error,omitzero"` // why the file cannot be used as it claims
}

type tensor struct {
	Name string  `json:"name"`
	Type string  `json:"type"`
	Dims []int64 `json:"dims"` // -1: free
}

type external struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// golden is how the replay of golden pairs went.
type golden struct {
	Result  string  `json:"result"` // "replayed", "differs", "not run" or "none"
	Pairs   int     `json:"pairs"`
	MaxDiff float32 `json:"max_diff"` // units of network output, of those replayed
	Why     string  `json:"why,omitzero"`
	Runtime string  `json:"runtime,omitzero"` // ONNX Runtime's version
}

// fit says whether a Go1 can drive the policy.
type fit struct {
	Fits  bool     `json:"fits"`
	Why   string   `json:"why,omitzero"`
	Needs []string `json:"needs,omitempty"` // what must be on beside the bare robot
}

// inspect gathers the report. An error says why the file cannot be used as it
// claims; then the report has what was found before, or is nil.
func inspect(path string, cfg *config) (*report, error) {
	f, err := contract.Read(path)
	if err != nil {
		return nil, err
	}
	r := &report{File: path, SHA256: f.SHA256, Bytes: len(f.Bytes), ContractSource: f.Source, Contract: f.Contract}
	r.model(f.Model)
	err = f.Check()
	switch {
	case errors.Is(err, contract.ErrNoContract):
		return r, f.CheckExternal() // no contract is no fault of the file, missing weights are
	case err != nil:
		return r, err
	}
	r.Go1 = fitGo1(f.Contract, cfg)
	r.Golden, err = replay(f, cfg)
	return r, err
}

func (r *report) model(m *contract.Model) {
	r.IRVersion, r.Opset, r.Producer = m.IRVersion, m.Opset, m.Producer
	if m.ProducerVersion != "" {
		r.Producer += " " + m.ProducerVersion
	}
	list := func(ts []contract.Tensor) (out []tensor) {
		for _, t := range ts {
			out = append(out, tensor{t.Name, t.Type.String(), t.Dims})
		}
		return out
	}
	r.Inputs, r.Outputs = list(m.Inputs), list(m.Outputs)
	for _, e := range m.External {
		r.External = append(r.External, external{e.Name, e.Bytes})
	}
	for _, e := range m.Metadata {
		r.MetadataKeys = append(r.MetadataKeys, e.Key)
	}
}

// replay opens the policy once, which replays its golden pairs. Without ONNX
// Runtime on this machine, or where the configuration says so, the answer is
// "not run", and no error.
func replay(f *contract.File, cfg *config) (*golden, error) {
	g := &golden{Result: "none"}
	if f.Contract.Golden != nil {
		g.Pairs = len(f.Contract.Golden.Pairs)
	}
	if !cfg.Replay {
		g.Result, g.Why = "not run", "replay is false"
		return g, nil
	}
	lib, err := session.Library()
	if err != nil {
		g.Result, g.Why = "not run", err.Error()
		return g, nil
	}
	g.Runtime = lib.Version
	p, err := session.Open(f, session.Options{})
	if err != nil {
		g.Result, g.Why = "not run", err.Error()
		if errors.Is(err, session.ErrGolden) {
			g.Result = "differs"
		}
		return g, err
	}
	defer p.Close()
	if g.Pairs > 0 {
		g.Result = "replayed"
		_, g.MaxDiff = p.Golden()
	}
	return g, nil
}

// fitGo1 asks as for the configured robot, and lists what the policy needs of it.
func fitGo1(c *contract.Contract, cfg *config) *fit {
	if err := go1.Fit(&c.Spec, go1.Sensing{LinVel: cfg.Estimator}); err != nil {
		return &fit{Why: err.Error()}
	}
	r := &fit{Fits: true}
	for _, t := range c.Group("policy").Terms {
		if def := go1.TermByName(t.Name); def != nil && !def.Sensed {
			r.Needs = append(r.Needs, fmt.Sprintf("%s (%s, %s) from an estimator: the robot does not sense it", t.Name, def.Doc, def.Unit))
		}
	}
	if c.Clock.Hz > 0 {
		r.Needs = append(r.Needs, fmt.Sprintf("a gait clock of %v Hz", c.Clock.Hz))
	}
	return r
}
