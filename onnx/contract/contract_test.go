package contract_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/importer/known"
)

// full has every member set.
func full() *contract.Contract {
	c := contracttest.Toy()
	c.Action.Clip = &[2]float32{-1, 1}
	c.Groups[0].Terms[0].Clip = &[2]float32{-100, 100}
	c.Groups[0].Terms[1].Order, c.Groups[0].Terms[1].Fill = rollout.NewestFirst, rollout.FillZero
	c.Golden = &contract.Golden{Tolerance: 1e-5, Pairs: []contract.Pair{{Obs: []float32{1, 2, 3}, Action: []float32{4, 5}}}}
	sum := strings.Repeat("0a", 32)
	c.Training = &contract.Training{Run: "r7", Iteration: 400, Steps: 2457600, Seconds: 61.5, Command: "clawlearn train --out 'a b'", Commit: "abc", World: sum, Parent: sum,
		Curve: []contract.Point{{Steps: 0, VelErr: 0.59, YawErr: 0.53, FallRate: 1}, {Steps: 2457600, VelErr: 0.1, YawErr: 0.12}}}
	c.Evaluation = &contract.Evaluation{Suite: "eval_v1", Rows: 512, Seconds: 20, VelErr: 0.08, YawErr: 0.1, FallRate: 0.01, PowerW: 80, ActionRate: 0.3}
	c.License, c.Source, c.Notes = "Apache-2.0", "here", []string{"a note"}
	return c
}

func TestRoundTrip(t *testing.T) {
	for _, c := range []*contract.Contract{contracttest.Toy(), full()} {
		// float32s that need all their digits, are subnormal, or are a negative zero.
		c.Normaliser.Mean = []float32{math.Nextafter32(0.1, 1), math.SmallestNonzeroFloat32, float32(math.Copysign(0, -1))}
		c.Normaliser.Std = []float32{math.MaxFloat32, 1.0 / 3, 16777217}
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := contract.Decode(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !reflect.DeepEqual(got, c) {
			t.Errorf("got %+v\nwant %+v", got, c)
		}
		for i, m := range c.Normaliser.Mean {
			if math.Float32bits(got.Normaliser.Mean[i]) != math.Float32bits(m) {
				t.Errorf("mean[%d]: %x, want %x", i, math.Float32bits(got.Normaliser.Mean[i]), math.Float32bits(m))
			}
		}
		again, err := got.Encode()
		if err != nil || string(again) != string(text) {
			t.Errorf("written twice it differs (%v)", err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	text, err := full().Encode()
	if err != nil {
		t.Fatal(err)
	}
	good := string(text)
	if _, err := contract.Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"unknown member", `"robot"`, `"colour": 1, "robot"`, "colour"},
		{"unknown member deep down", `"size": 1,`, `"size": 1, "unit": "rad",`, "unit"},
		{"wrong case", `"robot"`, `"Robot"`, "Robot"},
		{"duplicate", `"robot": "toy"`, `"robot": "toy", "robot": "toy"`, "duplicate"},
		{"NaN as string", `"kd": [`, `"kd": ["NaN", `, "kd"},
		{"bare NaN", `"kd": [`, `"kd": [NaN, `, "invalid"},
		{"beyond float32", `"kd": [`, `"kd": [1e39, `, "kd"},
		{"beyond float64", `"kd": [`, `"kd": [1e400, `, "kd"},
		{"null", `"robot": "toy"`, `"robot": null`, "robot: null"},
		{"null in a list", `"kd": [`, `"kd": [null, `, "kd[0]: null"},
		{"trailing", "", "}", "after top-level value"},
		{"later version", `"version": 1`, `"version": 2`, "version: 2, this program reads 1"},
		{"no version", `"version": 1,`, ``, "version: missing"},
		{"version as text", `"version": 1`, `"version": "1"`, "version"},
		{"period in seconds", `"policy_period_ns": 20000000`, `"policy_period_ns": 0.02`, "policy_period_ns"},
		{"std zero", `"std": [`, `"std": [0, `, "normaliser.std"},
		{"tolerance", `"tolerance": 0.00001`, `"tolerance": 1`, "golden.tolerance: 1, want"},
		{"parent", `"parent": "0a`, `"parent": "0A`, "training.parent"},
		{"steps below 0", `"steps": 2457600`, `"steps": -1`, "training.steps is -1"},
		{"seconds below 0", `"seconds": 61.5`, `"seconds": -61.5`, "training.seconds is -61.5"},
		{"curve that does not rise", `"steps": 0`, `"steps": 2457600`, "training.curve[1].steps is 2457600, want more than 2457600"},
		{"curve that begins before the run", `"steps": 0`, `"steps": -5`, "training.curve[0].steps is -5"},
		{"curve of more than all rows", `"fall_rate": 1`, `"fall_rate": 1.5`, "training.curve[0].fall_rate is 1.5, want 0..1"},
		{"curve below 0", `"vel_err": 0.59`, `"vel_err": -0.59`, "training.curve[0].vel_err is -0.59"},
		{"curve with a member missing", `"yaw_err": 0.53,`, ``, "training.curve[0].yaw_err: missing"},
		{"long curve", `"curve": [`, `"curve": [` + strings.Repeat(`{"steps":0,"vel_err":0,"yaw_err":0,"fall_rate":0},`, contract.MaxCurve), "training.curve has 66 points, want at most 64"},
		{"not an object", good, `[1]`, "JSON"},
		{"empty", good, ``, "JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bad := good + test.new
			if test.old != "" {
				if !strings.Contains(good, test.old) {
					t.Fatalf("%q is not in\n%s", test.old, good)
				}
				bad = strings.Replace(good, test.old, test.new, 1)
			}
			_, err := contract.Decode([]byte(bad))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
	if _, err := contract.Decode(make([]byte, contract.MaxJSON+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("over the size cap: %v", err)
	}
}

// A member that is left out would become a zero that somebody walks with: each
// one must be missed by name.
func TestDecodeMissesEveryMember(t *testing.T) {
	good, err := contracttest.Toy().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"name", "robot", "joints", "home", "action", "scale", "kp", "kd", "policy_period_ns", "control_period_ns",
		"command", "vx", "vy", "wz", "clock", "hz", "start", "min_command", "groups", "layout", "terms", "size", "history", "sensed", "mean", "std", "in_graph"} {
		bad, n := cutMember(string(good), name)
		if n == 0 {
			t.Fatalf("%s is not in\n%s", name, good)
		}
		_, err := contract.Decode([]byte(bad))
		if err == nil || !strings.Contains(err.Error(), name+": missing") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// cutMember removes the first member of this name from indented JSON.
func cutMember(text, name string) (string, int) {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		body := strings.TrimLeft(l, " \t")
		if !strings.HasPrefix(body, `"`+name+`":`) {
			continue
		}
		indent, end := len(l)-len(body), i
		if !strings.HasSuffix(l, ",") && (strings.HasSuffix(l, "{") || strings.HasSuffix(l, "[")) {
			for end++; len(lines[end])-len(strings.TrimLeft(lines[end], " \t")) > indent; {
				end++
			}
		}
		if !strings.HasSuffix(lines[end], ",") { // the last member: the one before loses its comma
			lines[i-1] = strings.TrimSuffix(lines[i-1], ",")
		}
		return strings.Join(append(lines[:i:i], lines[end+1:]...), "\n"), 1
	}
	return text, 0
}

func TestCheckRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, test := range []struct {
		name string
		edit func(*contract.Contract)
		want string
	}{
		{"robot", func(c *contract.Contract) { c.Robot = "" }, "robot"},
		{"kp", func(c *contract.Contract) { c.Kp[1] = nan }, "kp: right is NaN"},
		{"home", func(c *contract.Contract) { c.Home = c.Home[:1] }, "home: 1 numbers for 2 joints"},
		{"scale", func(c *contract.Contract) { c.Groups[0].Terms[0].Scale = 0 }, "tilt: scale is 0"},
		{"mean", func(c *contract.Contract) { c.Normaliser.Mean[2] = inf }, "normaliser.mean: joint_pos[1] right is +Inf"},
		{"mean length", func(c *contract.Contract) { c.Normaliser.Mean = nil }, "normaliser.mean: 0 numbers, want 3"},
		{"std", func(c *contract.Contract) { c.Normaliser.Std[0] = -1 }, "normaliser.std: tilt[0] is -1"},
		{"golden", func(c *contract.Contract) { c.Golden.Pairs = nil }, "golden.pairs: none"},
		{"golden obs", func(c *contract.Contract) { c.Golden.Pairs[0].Obs[1] = nan }, "golden.pairs[0].obs: joint_pos[0] left is NaN"},
		{"golden action", func(c *contract.Contract) { c.Golden.Pairs[0].Action = []float32{1} }, "golden.pairs[0].action: 1 numbers, want 2"},
		{"tolerance", func(c *contract.Contract) { c.Golden.Tolerance = nan }, "golden.tolerance"},
		{"evaluation", func(c *contract.Contract) { c.Evaluation.FallRate = math.NaN() }, "evaluation.fall_rate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := full()
			test.edit(c)
			if err := c.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Check: %v, want %q in it", err, test.want)
			}
			if _, err := c.Encode(); err == nil {
				t.Error("Encode wrote it")
			}
		})
	}
}

func TestZ(t *testing.T) {
	c := contracttest.Toy()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	for _, test := range []struct {
		obs  []float32
		z    float64
		term string
	}{
		{[]float32{0, 1, 2}, 0, "tilt[0]"},
		{[]float32{-2, 1, 2}, 2, "tilt[0]"},
		{[]float32{1, 3.5, 2}, 5, "joint_pos[0] left"},
		{[]float32{1, 1, 1}, 10, "joint_pos[1] right"},
		{[]float32{1, nan, 1}, math.Inf(1), "joint_pos[0] left is NaN"},
		{[]float32{1, 2}, math.Inf(1), "observation of 2 numbers, want 3"},
	} {
		z, term := c.Z(test.obs)
		if z != test.z && math.Abs(z-test.z) > 1e-5 || term != test.term {
			t.Errorf("Z(%v) = %v, %q, want %v, %q", test.obs, z, term, test.z, test.term)
		}
	}
	obs := []float32{1, 1, 1}
	if n := testing.AllocsPerRun(100, func() { c.Z(obs) }); n != 0 {
		t.Errorf("Z allocates %v times", n)
	}
	c.Normaliser = nil
	if z, term := c.Z(obs); c.Proven() || !math.IsInf(z, 1) || term != contract.NotProven {
		t.Errorf("without mean and std: %v, %q", z, term)
	}
}

func TestElementNamesFollowTheLayout(t *testing.T) {
	c := contracttest.Toy()
	for i := range c.Groups[0].Terms {
		c.Groups[0].Terms[i].History = 2
	}
	want := map[rollout.Layout][]string{
		rollout.ByTerm:  {"tilt[0] frame 0", "tilt[0] frame 1", "joint_pos[0] left frame 0", "joint_pos[1] right frame 0", "joint_pos[0] left frame 1", "joint_pos[1] right frame 1"},
		rollout.ByFrame: {"tilt[0] frame 0", "joint_pos[0] left frame 0", "joint_pos[1] right frame 0", "tilt[0] frame 1", "joint_pos[0] left frame 1", "joint_pos[1] right frame 1"},
	}
	for layout, names := range want {
		c.Groups[0].Layout = layout
		for i, w := range names {
			if got := c.Element(i); got != w {
				t.Errorf("layout %s: element %d is %q, want %q", layout, i, got, w)
			}
		}
		if got := c.Element(len(names)); got != "element 6" {
			t.Errorf("past the end: %q", got)
		}
	}
}

// Every contract that is kept for a well-known file can be read.
func TestKnown(t *testing.T) {
	hashes := known.Hashes()
	if len(hashes) == 0 {
		t.Fatal("none")
	}
	for _, h := range hashes {
		text, ok := known.Lookup(h)
		if !ok || len(h) != 64 {
			t.Fatalf("%s: not found", h)
		}
		if _, err := contract.Decode(text); err != nil {
			t.Errorf("%s: %v", h, err)
		}
	}
	for _, h := range []string{"", "../known", strings.Repeat("f", 64)} {
		if _, ok := known.Lookup(h); ok {
			t.Errorf("%q is known", h)
		}
	}
}

const playground = "386cde6a1eac679e2f2a313ade2b395d9f26905b151ee3b019c2c4163d49b6f2"

// The facts of go1_policy.onnx, and the fingerprint of its normaliser for a robot
// at rest at home (../shared/policies/README.md).
func TestKnownGo1Policy(t *testing.T) {
	text, _ := known.Lookup(playground)
	c, err := contract.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := go1.Fit(&c.Spec, go1.Sensing{LinVel: true}); err != nil {
		t.Error(err)
	}
	if err := go1.Fit(&c.Spec, go1.Sensing{}); err == nil || !strings.Contains(err.Error(), "base_lin_vel") {
		t.Errorf("without an estimator: %v", err)
	}
	if c.Group("policy").Size() != 48 || c.ActDim() != go1.Joints || !reflect.DeepEqual(c.Home, go1.Home[:]) {
		t.Errorf("%d observation numbers, %d joints, home %v", c.Group("policy").Size(), c.ActDim(), c.Home)
	}
	rest := func(edit func(obs []float32)) []float32 {
		obs := make([]float32, 48)
		obs[8] = -1
		edit(obs)
		return obs
	}
	for _, test := range []struct {
		name string
		edit func(obs []float32)
		z    float64
		term string
	}{
		{"right", func([]float32) {}, 0.59, ""},
		{"gravity sign", func(o []float32) { o[8] = 1 }, 38.8, "projected_gravity[2]"},
		{"gravity in m/s^2", func(o []float32) { o[8] = -9.81 }, 171, "projected_gravity[2]"},
		{"absolute angles", func(o []float32) { copy(o[9:21], c.Home) }, 9.3, ""},
	} {
		z, term := c.Z(rest(test.edit))
		if math.Abs(z-test.z) > 0.01*test.z || test.term != "" && term != test.term {
			t.Errorf("%s: %v at %s, want %v at %s", test.name, z, term, test.z, test.term)
		}
		if pass := z <= contract.MaxZ; pass != (test.name == "right") {
			t.Errorf("%s: passes the gate: %v", test.name, pass)
		}
	}
}
