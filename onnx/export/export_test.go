package export_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/export"
)

// walk is a trainer's contract: what a Go1 senses (47 numbers), a clock, and a
// group that only the critic sees.
func walk() *contract.Contract {
	term := func(name string, scale float32) rollout.Term {
		return rollout.Term{Name: name, Size: go1.TermByName(name).Size, Scale: scale, History: 1, Sensed: true}
	}
	c := &contract.Contract{
		Version: contract.Version, Name: "walk",
		Spec: rollout.Spec{
			Robot: go1.Robot, Joints: slices.Clone(go1.JointNames[:]), Home: slices.Clone(go1.Home[:]),
			Action:         rollout.Action{Clip: &[2]float32{-5, 5}},
			PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
			Command: rollout.Command{Vx: [2]float32{-1, 1}, Wz: [2]float32{-1, 1}},
			Clock:   rollout.Clock{Hz: 2.2, MinCommand: 0.05},
			Groups: []rollout.Group{
				{Name: "critic", Layout: rollout.ByTerm, Terms: []rollout.Term{{Name: "friction", Size: 1, Scale: 1, History: 1}}},
				{Name: "policy", Layout: rollout.ByTerm, Terms: []rollout.Term{term("base_ang_vel", 0.25), term("projected_gravity", 1),
					term("joint_pos", 1), term("joint_vel", 0.05), term("actions", 1), term("command", 1), term("clock", 1)}},
			},
		},
		Training: &contract.Training{Run: "walk/2026-11-29", Iteration: 200, Commit: strings.Repeat("c0ffee00", 5)},
		License:  "Apache-2.0",
	}
	for range c.Joints {
		c.Action.Scale = append(c.Action.Scale, 0.372753)
		c.Kp, c.Kd = append(c.Kp, 35), append(c.Kd, 0.5)
	}
	return c
}

// network makes an actor of the given widths, observation first, with weights of
// the size that libtorch begins with and a normaliser that shifts and stretches.
func network(seed uint64, inGraph bool, widths ...int) *export.Network {
	rng := rand.New(rand.NewPCG(seed, 1))
	n := &export.Network{Activation: export.ELU, Normaliser: contract.Normaliser{InGraph: inGraph}}
	for range widths[0] {
		n.Normaliser.Mean = append(n.Normaliser.Mean, float32(rng.NormFloat64()))
		n.Normaliser.Std = append(n.Normaliser.Std, float32(0.2+2*rng.Float64()))
	}
	for i := range len(widths) - 1 {
		l := export.Layer{In: widths[i], Out: widths[i+1]}
		for range l.In * l.Out {
			l.Weight = append(l.Weight, float32(rng.NormFloat64()/math.Sqrt(float64(l.In))))
		}
		for range l.Out {
			l.Bias = append(l.Bias, float32(0.1*rng.NormFloat64()))
		}
		n.Layers = append(n.Layers, l)
	}
	return n
}

// walkHistory is walk for an actor that sees frames frames of it.
func walkHistory(frames int) *contract.Contract {
	c := walk()
	g := &c.Groups[1]
	g.Layout = rollout.ByFrame
	for i := range g.Terms {
		g.Terms[i].History = frames
	}
	return c
}

// history makes an actor of frames frames of walk, with an encoder of these convolutions
// (channels, kernel, stride), of random weights.
func history(seed uint64, inGraph bool, frames int, convs ...[3]int) *export.Network {
	const frame, latent = 47, 8
	n := network(seed, inGraph, frames*frame)
	rng := rand.New(rand.NewPCG(seed, 2))
	length, channels := frames, frame
	layer := func(in, out int) export.Layer { return network(rng.Uint64(), false, in, out).Layers[0] }
	n.Encoder = &export.Encoder{Frames: frames}
	for _, c := range convs {
		n.Encoder.Convs = append(n.Encoder.Convs, export.Conv{Layer: layer(c[1]*channels, c[0]), Kernel: c[1], Stride: c[2]})
		length, channels = (length-c[1])/c[2]+1, c[0]
	}
	n.Encoder.Latent, n.Encoder.Velocity = layer(length*channels, latent), layer(length*channels, 3)
	n.Layers = network(rng.Uint64(), false, frame+latent+3, 32, 12).Layers
	return n
}

// linear is a layer, with ELU if asked.
func linear(l *export.Layer, x []float64, elu bool) []float64 {
	y := make([]float64, l.Out)
	for o := range y {
		y[o] = float64(l.Bias[o])
		for k := range x {
			y[o] += float64(l.Weight[o*l.In+k]) * x[k]
		}
		if elu && y[o] < 0 {
			y[o] = math.Expm1(y[o])
		}
	}
	return y
}

// encode is an encoder in float64: what it shows the layers.
func encode(e *export.Encoder, obs []float64) []float64 {
	length, at := e.Frames, obs
	channels := len(obs) / length
	for i := range e.Convs {
		c := &e.Convs[i]
		var next []float64
		positions := 0
		for end := length; end >= c.Kernel; end -= c.Stride { // from the newest back
			next = append(linear(&c.Layer, at[(end-c.Kernel)*channels:end*channels], true), next...)
			positions++
		}
		length, channels, at = positions, c.Out, next
	}
	shown := slices.Clone(obs[len(obs)-len(obs)/e.Frames:])
	return append(append(shown, linear(&e.Latent, at, true)...), linear(&e.Velocity, at, false)...)
}

// forward is the network in float64, without any library.
func forward(n *export.Network, obs []float32) []float32 {
	x := make([]float64, len(obs))
	for i := range obs {
		x[i] = float64(obs[i])
		if z := n.Normaliser; z.InGraph {
			x[i] = (x[i] - float64(z.Mean[i])) / float64(z.Std[i])
		}
	}
	if n.Encoder != nil {
		x = encode(n.Encoder, x)
	}
	for i := range n.Layers {
		x = linear(&n.Layers[i], x, i < len(n.Layers)-1)
	}
	out := make([]float32, len(x))
	for i := range x {
		out[i] = float32(x[i])
	}
	return out
}

// pairs are count observations as the normaliser knows them, with forward's actions.
func pairs(n *export.Network, count int) []contract.Pair {
	rng := rand.New(rand.NewPCG(7, 7))
	p := make([]contract.Pair, count)
	for i := range p {
		for k, mean := range n.Normaliser.Mean {
			p[i].Obs = append(p[i].Obs, mean+n.Normaliser.Std[k]*float32(rng.NormFloat64()))
		}
		p[i].Action = forward(n, p[i].Obs)
	}
	return p
}

func TestWrite(t *testing.T) {
	for _, test := range []struct {
		name     string
		contract *contract.Contract
		net      *export.Network
	}{
		{"one layer", contracttest.Toy(), network(1, false, 3, 2)},
		{"one layer, normaliser", contracttest.Toy(), network(2, true, 3, 2)},
		{"narrow", contracttest.Toy(), network(3, true, 3, 1, 1, 2)},
		{"walk 128-128", walk(), network(4, false, 47, 128, 128, 12)},
		{"walk 128-128, normaliser", walk(), network(5, true, 47, 128, 128, 12)},
		{"512-256-128, normaliser", walk(), network(6, true, 47, 512, 256, 128, 12)},
		{"15 frames", walkHistory(15), history(14, false, 15, [3]int{32, 5, 2}, [3]int{32, 3, 2})},
		{"10 frames that do not fit, normaliser", walkHistory(10), history(15, true, 10, [3]int{16, 3, 2}, [3]int{16, 2, 3})},
		{"one convolution of all frames", walkHistory(2), history(16, false, 2, [3]int{8, 2, 1})},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "policy.onnx")
			rows := pairs(test.net, 256)
			before, err := test.contract.Encode()
			if err != nil {
				t.Fatal(err)
			}
			r, err := export.Write(path, test.net, test.contract, rows)
			if err != nil {
				t.Fatal(err)
			}
			if after, _ := test.contract.Encode(); !bytes.Equal(before, after) {
				t.Errorf("the caller's contract was changed")
			}
			f, err := contract.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if r.SHA256 != f.SHA256 || r.Bytes != len(f.Bytes) || r.Rows != 256 || !(r.MaxDiff <= export.MaxDiff) {
				t.Errorf("report %+v of a file of %d bytes, sha256 %s", r, len(f.Bytes), f.SHA256)
			}
			t.Logf("%d bytes, off by %.3g at most", r.Bytes, r.MaxDiff)

			m, c := f.Model, f.Contract
			obs, act := len(test.net.Normaliser.Mean), len(c.Joints)
			if f.Source != contract.FromMetadata || m.IRVersion != 8 || m.Opset != 17 || m.Producer != "openclaw" || !m.Batched() ||
				m.Inputs[0].String() != fmt.Sprintf("obs float32 [? %d]", obs) || m.Outputs[0].String() != fmt.Sprintf("actions float32 [? %d]", act) {
				t.Errorf("contract from %s, model %+v", f.Source, m)
			}
			if test.contract.Training != nil && m.ProducerVersion != test.contract.Training.Commit {
				t.Errorf("producer version %q", m.ProducerVersion)
			}
			if !reflect.DeepEqual(*c.Normaliser, test.net.Normaliser) {
				t.Errorf("normaliser %+v, want %+v", c.Normaliser, test.net.Normaliser)
			}
			if len(c.Groups) != 1 || c.Groups[0].Name != "policy" {
				t.Errorf("groups %+v", c.Groups)
			}
			if g := c.Golden.Pairs; len(g) != 24 || !reflect.DeepEqual(g[0], rows[0]) || !reflect.DeepEqual(g[23], rows[255]) || !reflect.DeepEqual(g[1], rows[11]) {
				t.Errorf("%d golden pairs, or not the ones given", len(c.Golden.Pairs))
			}
			if diff, err := export.Verify(path, rows); err != nil || diff != r.MaxDiff {
				t.Errorf("Verify: %v, %v, want %v", diff, err, r.MaxDiff)
			}
			if test.contract.Robot == go1.Robot {
				if err := go1.Fit(&c.Spec, go1.Sensing{}); err != nil {
					t.Error(err)
				}
			}
			onlyFile(t, path)
		})
	}
}

// onlyFile fails if there is more or less in path's folder.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("in the folder: %v, want %s alone", entries, filepath.Base(path))
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestEncodeIsDeterministic(t *testing.T) {
	n := network(8, true, 47, 16, 12)
	a, err := export.Encode(n, walk(), pairs(n, 24))
	if err != nil {
		t.Fatal(err)
	}
	b, err := export.Encode(n, walk(), pairs(n, 24))
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("two files of one policy differ (%v)", err)
	}
}

// A file that does not compute what the trainer does is not written, and what
// lay there stays. The normaliser that was forgotten is the known case
// (isaac-sim/IsaacLab#3836).
func TestWriteRefusesOtherNumbers(t *testing.T) {
	n := network(9, true, 47, 32, 12)
	good := pairs(n, 256)
	for _, test := range []struct {
		name    string
		network bool // the network is at fault, else the rows
		edit    func(n *export.Network, rows []contract.Pair)
		want    string
	}{
		{"normaliser forgotten", true, func(n *export.Network, _ []contract.Pair) { n.Normaliser.InGraph = false }, "golden pair 0"},
		{"std without the trainer's epsilon", true, func(n *export.Network, _ []contract.Pair) {
			n.Normaliser.Std = slices.Clone(n.Normaliser.Std)
			n.Normaliser.Std[3] -= 0.01
		}, "golden pair 0"},
		{"one action of a batch that is not full", false, func(_ *export.Network, rows []contract.Pair) {
			rows[254].Action[2] += 3e-5
		}, "pair 254, action[2] (FR_calf_joint)"},
		{"below golden tolerance", false, func(_ *export.Network, rows []contract.Pair) {
			rows[0].Action[11] += 5e-5
		}, "pair 0, action[11] (RL_calf_joint)"},
		{"action not a number", false, func(_ *export.Network, rows []contract.Pair) {
			rows[1].Action[0] = float32(math.NaN())
		}, "pair 1, action[0] (FR_hip_joint)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			net, rows := *n, make([]contract.Pair, len(good))
			for i := range rows {
				rows[i] = contract.Pair{Obs: good[i].Obs, Action: slices.Clone(good[i].Action)}
			}
			test.edit(&net, rows)
			path := filepath.Join(t.TempDir(), "policy.onnx")
			_, err := export.Write(path, &net, walk(), rows)
			if !errors.Is(err, export.ErrParity) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to name %q", err, test.want)
			}
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file was left: %v", err)
			}

			if _, err := export.Write(path, n, walk(), good); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := export.Write(path, &net, walk(), rows); !errors.Is(err, export.ErrParity) {
				t.Errorf("second time: %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file that was there changed (%v)", err)
			}
			if _, err := export.Verify(path, rows); errors.Is(err, export.ErrParity) == test.network {
				t.Errorf("Verify of the file that was there: %v", err)
			}
			onlyFile(t, path)
		})
	}
}

func TestRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	type input struct {
		net      *export.Network
		contract *contract.Contract
		rows     []contract.Pair
	}
	for _, test := range []struct {
		name string
		edit func(*input)
		want string
	}{
		{"weight NaN", func(in *input) { in.net.Layers[1].Weight[16+5] = nan }, "layer 1: weight[1, 5] is NaN"},
		{"bias infinite", func(in *input) { in.net.Layers[0].Bias[2] = inf }, "layer 0: bias[2] is +Inf"},
		{"weights missing", func(in *input) { in.net.Layers[0].Weight = in.net.Layers[0].Weight[:40] }, "layer 0: 40 weights, want 16 x 47"},
		{"biases missing", func(in *input) { in.net.Layers[1].Bias = nil }, "layer 1: 0 biases, want 12"},
		{"transposed", func(in *input) { in.net.Layers[0].In, in.net.Layers[0].Out = 16, 47 }, "layer 0 takes 16 numbers, the observation has 47"},
		{"no output", func(in *input) { in.net.Layers[1].Out = 0 }, "layer 1 gives 0 numbers"},
		{"layers that do not meet", func(in *input) { in.net.Layers = slices.Insert(in.net.Layers, 1, export.Layer{Out: 16, In: 8}) },
			"layer 1 takes 8 numbers, layer 0 gives 16"},
		{"too few joints", func(in *input) { in.net.Layers = in.net.Layers[:1] }, "the last layer gives 16 numbers, joints are 12"},
		{"no layers", func(in *input) { in.net.Layers = nil }, "no layers"},
		{"activation", func(in *input) { in.net.Activation = "relu" }, `activation "relu", want "elu"`},
		{"mean NaN", func(in *input) { in.net.Normaliser.Mean[0] = nan }, "normaliser.mean: base_ang_vel[0] is NaN"},
		{"std 0", func(in *input) { in.net.Normaliser.Std[45] = 0 }, "normaliser.std: clock[0] is 0"},
		{"no normaliser", func(in *input) { in.net.Normaliser = contract.Normaliser{} }, "normaliser.mean: 0 numbers, want 47"},
		{"golden pair", func(in *input) { in.rows[0].Obs[3] = nan }, "golden.pairs[0].obs: projected_gravity[0] is NaN"},
		{"observation that is no golden pair", func(in *input) { in.rows[5].Obs[3] = inf }, "row 5, projected_gravity[0]"},
		{"short observation", func(in *input) { in.rows[5].Obs = in.rows[5].Obs[1:] }, "pair 5: 46 observation numbers and 12 action numbers, want 47 and 12"},
		{"23 pairs", func(in *input) { in.rows = in.rows[:23] }, "23 pairs, want 24 or more"},
		{"255 pairs", func(in *input) { in.rows = in.rows[:255] }, "255 pairs, want 256 or more"},
		{"no contract version", func(in *input) { in.contract.Version = 0 }, "version"},
		{"no policy group", func(in *input) { in.contract.Groups = in.contract.Groups[:1] }, `none is named "policy"`},
		{"comma in a joint", func(in *input) { in.contract.Joints[4] = "a,b" }, `"a,b": mjlab`},
		{"semicolon in a term", func(in *input) { in.contract.Groups[1].Terms[0].Name = "a;b" }, `"a;b": mjlab`},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := input{net: network(10, true, 47, 16, 12), contract: walk()}
			in.rows = pairs(in.net, 256)
			test.edit(&in)
			path := filepath.Join(t.TempDir(), "policy.onnx")
			_, err := export.Write(path, in.net, in.contract, in.rows)
			if err == nil || !strings.HasPrefix(err.Error(), "export: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to name %q", err, test.want)
			}
			if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) > 0 {
				t.Errorf("left behind: %v, %v", entries, err)
			}
		})
	}
	for _, test := range []struct {
		name string
		edit func(*export.Encoder)
		want string
	}{
		{"frames", func(e *export.Encoder) { e.Frames = 4 }, "encoder of 4 frames, the observation has 470 numbers"},
		{"one frame", func(e *export.Encoder) { e.Frames = 1 }, "encoder of 1 frames"},
		{"no convolutions", func(e *export.Encoder) { e.Convs = nil }, "the encoder has no convolutions"},
		{"kernel", func(e *export.Encoder) { e.Convs[1].Kernel = 5 }, "convolution 1: kernel 5, stride 2 over 4 positions"},
		{"no kernel", func(e *export.Encoder) { e.Convs[0].Kernel = 0 }, "convolution 0: kernel 0"},
		{"stride", func(e *export.Encoder) { e.Convs[0].Stride = 0 }, "convolution 0: kernel 4, stride 0 over 10 positions"},
		{"another frame", func(e *export.Encoder) { e.Convs[0].In = 4 }, "convolution 0 takes 4 numbers, so many frames have 188"},
		{"channels", func(e *export.Encoder) { e.Convs[0].Out = 4 }, "convolution 0: 1504 weights, want 4 x 188"},
		{"between convolutions", func(e *export.Encoder) { e.Convs[1].Kernel = 2 }, "convolution 1 takes 24 numbers, so many positions of convolution 0 have 16"},
		{"latent", func(e *export.Encoder) { e.Latent.In = 3 }, "encoder: latent takes 3 numbers, the convolutions give 6"},
		{"latent NaN", func(e *export.Encoder) { e.Latent.Weight[0] = nan }, "encoder: latent: weight[0, 0] is NaN"},
		{"convolution NaN", func(e *export.Encoder) { e.Convs[1].Bias[2] = inf }, "convolution 1: bias[2] is +Inf"},
		{"velocity", func(e *export.Encoder) { e.Velocity.Bias = nil }, "encoder: velocity: 0 biases, want 3"},
		{"velocity of two", func(e *export.Encoder) { e.Velocity = network(1, false, 6, 2).Layers[0] }, "velocity gives 2 numbers, want 3"},
		{"trunk", func(e *export.Encoder) { e.Latent = network(1, false, 6, 9).Layers[0] },
			"layer 0 takes 58 numbers, the newest frame and the encoder have 59"},
	} {
		t.Run("encoder "+test.name, func(t *testing.T) {
			net := history(17, false, 10, [3]int{8, 4, 2}, [3]int{6, 3, 2})
			rows := pairs(net, 24)
			test.edit(net.Encoder)
			if _, err := export.Encode(net, walkHistory(10), rows); err == nil || !strings.HasPrefix(err.Error(), "export: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to name %q", err, test.want)
			}
		})
	}
	t.Run("verify no file", func(t *testing.T) {
		if _, err := export.Verify(filepath.Join(t.TempDir(), "policy.onnx"), nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

func TestMjlabMetadata(t *testing.T) {
	keys := func(c *contract.Contract) map[string]string {
		t.Helper()
		size := c.Group("policy").Size()
		net := network(11, false, size, len(c.Joints))
		data, err := export.Encode(net, c, pairs(net, 24))
		if err != nil {
			t.Fatal(err)
		}
		m, err := contract.ParseModel(data)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, e := range m.Metadata {
			if e.Key != contract.Key {
				got[e.Key] = e.Value
			}
		}
		return got
	}
	repeat := func(s string) string { return strings.TrimSuffix(strings.Repeat(s+",", 12), ",") }
	c := walk()
	c.Groups[1].Terms[0].Clip = &[2]float32{-3, 4}
	c.Groups[1].Terms[1].Scale, c.Groups[1].Terms[1].Clip = -2, &[2]float32{-1, 3}
	got := keys(c)
	var home []string
	for _, x := range go1.Home {
		home = append(home, fmt.Sprint(x))
	}
	want := map[string]string{
		"run_path":          "walk/2026-11-29",
		"joint_names":       strings.Join(go1.JointNames[:], ","),
		"joint_stiffness":   repeat("35"),
		"joint_damping":     repeat("0.5"),
		"default_joint_pos": strings.Join(home, ","),
		"command_names":     "twist",
		"observation_names": "base_ang_vel,projected_gravity,joint_pos,joint_vel,actions,command,clock",
		"action_scale":      repeat("0.372753"),

		"observation_terms_scale":               "0.25,-2,1,0.05,1,1,1",
		"observation_terms_flatten_history_dim": "1,1,1,1,1,1,1",
		"observation_terms_history_length":      "0,0,0,0,0,0,0",
		"observation_terms_clip":                "-12;16,-1.5;0.5,-inf;inf,-inf;inf,-inf;inf,-inf;inf,-inf;inf",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d keys, want %d: %v", len(got), len(want), got)
	}

	for _, test := range []struct {
		name string
		edit func(*rollout.Group)
		want string // of observation_terms_history_length
	}{
		{"history by term", func(g *rollout.Group) { g.Terms[0].History, g.Terms[3].History = 5, 3 }, "5,0,0,3,0,0,0"},
		{"history by frame", func(g *rollout.Group) {
			g.Layout = rollout.ByFrame
			for i := range g.Terms {
				g.Terms[i].History = 5
			}
		}, ""},
		{"newest first", func(g *rollout.Group) { g.Terms[0].History, g.Terms[0].Order = 5, rollout.NewestFirst }, ""},
		{"by frame, one frame", func(g *rollout.Group) { g.Layout = rollout.ByFrame }, "0,0,0,0,0,0,0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := walk()
			c.Training = nil
			test.edit(&c.Groups[1])
			got := keys(c)
			if got["observation_terms_history_length"] != test.want || got["run_path"] != "local" {
				t.Errorf("got %v", got)
			}
			for k := range got {
				if test.want == "" && strings.HasPrefix(k, "observation_terms_") {
					t.Errorf("%s is there, though mjlab would build another observation by it", k)
				}
			}
		})
	}
}
