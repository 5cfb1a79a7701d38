//go:build torch

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/export"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// policyFile is the name of the policy in a run's folder.
const policyFile = "policy.onnx"

// license of the policies that are trained here: the code's own.
const license = "Apache-2.0"

// maxCurve is how many evaluations on the way a policy file lists.
const maxCurve = 24

// witness is a policy that keeps what it saw and did, at even distances over rows and time of an evaluation.
type witness struct {
	rollout.Policy
	group, obs, act int
	rows, all       int // rows; rows times steps
	step            int
	pairs           []contract.Pair
}

func newWitness(p rollout.Policy, spec *rollout.Spec, group string, ev *task.Evaluation, pairs int) *witness {
	g := spec.GroupIndex(group)
	steps := int(math.Round(ev.Seconds * 1e9 / float64(spec.PolicyPeriodNs)))
	return &witness{Policy: p, group: g, obs: spec.Groups[g].Size(), act: spec.ActDim(), rows: ev.Rows, all: ev.Rows * steps,
		pairs: make([]contract.Pair, 0, pairs)}
}

// Act lets the policy act.
func (w *witness) Act(step *rollout.Step, out *rollout.Decision) error {
	if err := w.Policy.Act(step, out); err != nil {
		return err
	}
	for len(w.pairs) < cap(w.pairs) {
		at := len(w.pairs) * w.all / cap(w.pairs)
		if at >= (w.step+1)*w.rows {
			break
		}
		row := at - w.step*w.rows
		p := contract.Pair{Obs: make([]float32, w.obs), Action: make([]float32, w.act)}
		copy(p.Obs, step.Obs[w.group][row*w.obs:])
		buffer.Round(p.Obs) // as the actor saw it
		copy(p.Action, out.Action[row*w.act:])
		w.pairs = append(w.pairs, p)
	}
	w.step++
	return nil
}

// export writes the present actor as the run's policy, with how it walked and why it can be trusted.
func (t *trial) export(s *task.Result, pairs []contract.Pair) error {
	layer := func(l nets.Layer) export.Layer {
		return export.Layer{Out: l.Out, In: l.In, Weight: l.Weight, Bias: l.Bias}
	}
	net, learnt := &t.cfg.Algo.Net, t.trainer.Published()
	n := &export.Network{Activation: export.ELU, Normaliser: contract.Normaliser{InGraph: net.Normaliser}}
	layers, _ := learnt.Layers()
	for _, l := range layers {
		n.Layers = append(n.Layers, layer(l))
	}
	if convs, latent, velocity := learnt.EncoderLayers(); convs != nil {
		n.Encoder = &export.Encoder{Frames: net.Frames, Latent: layer(latent), Velocity: layer(velocity)}
		for i, l := range convs {
			n.Encoder.Convs = append(n.Encoder.Convs, export.Conv{Layer: layer(l), Kernel: net.Kernels[i], Stride: net.Strides[i]})
		}
	}
	n.Normaliser.Mean, n.Normaliser.Std = learnt.NormaliserStats()
	c, err := t.contract(s)
	if err != nil {
		return err
	}
	path := t.folder.Path(policyFile)
	if _, err := export.Write(path, n, c, pairs); err != nil {
		return err
	}
	t.result.Policy = path
	return nil
}

// contract is what the policy was trained on and how it did.
func (t *trial) contract(s *task.Result) (*contract.Contract, error) {
	world, err := task.WorldByName(t.cfg.World)
	if err != nil {
		return nil, err
	}
	text, err := world.Encode()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	meta, r := &t.folder.Meta, &t.result
	name := filepath.Base(t.folder.Dir)
	if abs, err := filepath.Abs(t.folder.Dir); err == nil {
		name = filepath.Base(abs) // of "."
	}
	commit := meta.Commit
	if meta.Dirty {
		commit += "-dirty"
	}
	c := &contract.Contract{Version: contract.Version, Name: "go1-" + t.cfg.Run.Preset + "-" + name, Spec: *task.WalkHistorySpec(t.cfg.Algo.Net.History()),
		Training: &contract.Training{Run: name, Iteration: r.Iterations, Steps: r.Samples, Seconds: r.Seconds, Command: shellLine(meta.Command),
			Commit: commit, World: hex.EncodeToString(sum[:]), Parent: t.teacher.sha256, Curve: curveOf(t.curve)},
		License: license, Source: "clawlearn " + meta.Version,
		Notes: []string{fmt.Sprintf("preset %s, world %s, seed %d", t.cfg.Run.Preset, t.cfg.World, t.cfg.Run.Seed)}}
	if !math.IsInf(worth(s), 1) {
		c.Evaluation = &contract.Evaluation{Suite: t.ev.Name + " " + r.WorldHash, Rows: t.ev.Rows, Seconds: t.ev.Seconds,
			VelErr: s.VelErr, YawErr: s.YawErr, FallRate: s.FallRate, PowerW: s.PowerW, ActionRate: s.ActionRate}
	}
	if read := t.cfg.Algo.Net.Group; read != "policy" {
		g := *c.Spec.Group(read)
		g.Name = "policy"
		c.Spec.Groups = []rollout.Group{g}
		c.Notes = append(c.Notes, "trained and evaluated on the simulator's true numbers (group "+read+"): a teacher, not for robots")
	}
	command := &c.Spec.Command
	for i, bounds := range []*[2]float32{&command.Vx, &command.Vy, &command.Wz} {
		*bounds = [2]float32{min(0, world.Commands.Min[i]), max(0, world.Commands.Max[i])} // zero is always asked, between walks
	}
	return c, nil
}

// curveOf takes at most maxCurve of the evaluations, the last among them.
func curveOf(all []point) (curve []contract.Point) {
	n, take := len(all), min(len(all), maxCurve)
	for i := range take {
		p := &all[n-1-(take-1-i)*n/take]
		curve = append(curve, contract.Point{Steps: p.Samples, VelErr: p.VelErr, YawErr: p.YawErr, FallRate: p.FallRate})
	}
	return curve
}

// shellLine is a command line as a shell takes it back.
func shellLine(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !strings.ContainsRune(plainInShells, r) }) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words[i] = strings.ToValidUTF8(a, "?") // JSON has no other text
	}
	return strings.Join(words, " ")
}

const plainInShells = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=./:,+@%"
