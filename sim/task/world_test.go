package task

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// flat is a JSON object's members by path.
func flat(t *testing.T, data jsontext.Value) map[string]string {
	t.Helper()
	out := map[string]string{}
	var walk func(path string, v jsontext.Value)
	walk = func(path string, v jsontext.Value) {
		if v.Kind() != '{' {
			if err := v.Compact(); err != nil {
				t.Fatal(err)
			}
			out[path] = string(v)
			return
		}
		var members map[string]jsontext.Value
		if err := json.Unmarshal(v, &members); err != nil {
			t.Fatal(err)
		}
		for name, m := range members {
			walk(strings.TrimPrefix(path+"."+name, "."), m)
		}
	}
	walk("", data)
	return out
}

func encoded(t *testing.T, w *World) jsontext.Value {
	t.Helper()
	data, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// walkRecipe is shared/recipe.md, "Environment" and "Reward per control step".
var walkRecipe = map[string]string{
	"commands.min": "[-1,-0.5,-1]", "commands.max": "[1,0.5,1]", "commands.every_seconds": "[4,6]", "commands.zero_share": "0.1",
	"episode_seconds": "20", "stagger": "true",
	"falls.min_height": "0.15", "falls.max_tilt": "1.0471975511965979", "falls.min_knee": "0.02",
	"start.joint": "0.1", "start.velocity": "0.2",
	"noise.gyro": "0.2", "noise.gravity": "0.05", "noise.joint_pos": "0.01", "noise.joint_vel": "1.5", "noise.lin_vel": "0",
	"vary.friction": "[0.4,1.2]", "vary.trunk_mass": "[-1,1]", "vary.trunk_com": "0",
	"vary.kp": "[0.9,1.1]", "vary.kd": "[0.9,1.1]", "vary.strength": "[1,1]", "vary.joint_zero": "0.02",
	"vary.latency": "[0,0.02]", "vary.latency_step": "0.005", "vary.latency_jitter": "0",
	"vary.gyro_bias": "0", "vary.imu_tilt": "0", "vary.lost_targets": "0", "vary.torque_speed_line": "false",
	"pushes.every_seconds": "[4,8]", "pushes.velocity": "0.3",
	"reward.tracking_lin_vel": "1.5", "reward.tracking_ang_vel": "0.75",
	"reward.lin_vel_z": "-2", "reward.ang_vel_xy": "-0.05", "reward.orientation": "-2", "reward.torques": "-0.0001",
	"reward.action_rate": "-0.01", "reward.action_smoothness": "-0.005", "reward.pose": "-0.05", "reward.hip_pose": "-0.3",
	"reward.gait_contact": "0.5", "reward.swing_height": "-20", "reward.foot_slip": "-0.1", "reward.base_height": "-20",
	"reward.alive": "0.5", "reward.fall": "-0.5",
}

// Every number of every preset: walk is the recipe, the others differ from it here.
func TestPresets(t *testing.T) {
	for name, differs := range map[string]map[string]string{
		"walk": {},
		"ship": { // design.md, section 6
			"vary.trunk_com": "0.05", "vary.strength": "[0.9,1.1]", "vary.latency": "[0,0.03]", "vary.latency_jitter": "0.005",
			"vary.gyro_bias": "0.05", "vary.imu_tilt": "0.03490658503988659", "vary.torque_speed_line": "true", "vary.lost_targets": "0.02",
		},
		"eval_v1": { // recipe.md, "Criterion"
			"commands.every_seconds": "[5,5]", "commands.zero_share": "0", "episode_seconds": "0", "stagger": "false",
		},
		"nominal": {
			"commands.min": "[0,0,0]", "commands.max": "[0,0,0]", "commands.every_seconds": "[0,0]", "commands.zero_share": "0",
			"episode_seconds": "0", "stagger": "false", "start.joint": "0", "start.velocity": "0",
			"noise.gyro": "0", "noise.gravity": "0", "noise.joint_pos": "0", "noise.joint_vel": "0",
			"vary.friction": "[0.8,0.8]", "vary.trunk_mass": "[0,0]", "vary.kp": "[1,1]", "vary.kd": "[1,1]", "vary.joint_zero": "0",
			"vary.latency": "[0,0]", "vary.latency_step": "0", "vary.torque_speed_line": "true",
			"pushes.every_seconds": "[0,0]", "pushes.velocity": "0",
		},
	} {
		w, err := WorldByName(name)
		if err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(walkRecipe)
		maps.Copy(want, differs)
		if diff := cmp.Diff(want, flat(t, encoded(t, w))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if again, _ := WorldByName(name); again == w {
			t.Errorf("%s: the preset itself is lent out", name)
		}
		if !slices.Contains(WorldNames(), name) {
			t.Errorf("%s is not among %v", name, WorldNames())
		}
	}
	if n := len(WorldNames()); n != 4 {
		t.Errorf("%d presets, 4 are pinned here", n)
	}
	if _, err := WorldByName("moon"); err == nil || !strings.Contains(err.Error(), `"moon"`) || !strings.Contains(err.Error(), "nominal, walk, ship, eval_v1") {
		t.Errorf("an unknown world: %v", err)
	}
}

func TestWorldRoundTrip(t *testing.T) {
	for _, name := range WorldNames() {
		w, _ := WorldByName(name)
		got, err := DecodeWorld(encoded(t, w))
		if err != nil || *got != *w {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	w := Walk()
	w.Noise.Gyro = -1
	if _, err := w.Encode(); err == nil || !strings.Contains(err.Error(), "noise.gyro") {
		t.Errorf("a world that cannot be simulated is written: %v", err)
	}
}

// Each number beyond its bounds is refused, and the error names it by its path.
func TestWorldNamesEachNumber(t *testing.T) {
	for path, value := range walkRecipe {
		bad := []string{"1e9", "-1e9"}
		switch {
		case strings.HasPrefix(value, "[-1,-0.5") || strings.HasPrefix(value, "[1,0.5"):
			bad = []string{"[0,1e9,0]", "[-1e9,0,0]"}
		case value[0] == '[':
			bad = []string{"[0.5,0.4]", "[-1e9,0.5]", "[0.5,1e9]"}
		case value == "true" || value == "false":
			continue
		}
		for _, b := range bad {
			w := Walk()
			if err := json.Unmarshal([]byte(nest(path, b)), w); err != nil {
				t.Fatal(err)
			}
			if err := w.Check(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s %s: error %v", path, b, err)
			}
		}
	}
}

// nest is the JSON object in which path is value.
func nest(path, value string) string {
	names := strings.Split(path, ".")
	return `{"` + strings.Join(names, `":{"`) + `":` + value + strings.Repeat("}", len(names))
}

func TestDecodeWorldRefuses(t *testing.T) {
	good := string(encoded(t, Walk()))
	for _, c := range []struct{ says, old, with string }{
		{"commands is missing", good, `{}`},
		{"EOF", good, ``},
		{"is null", good, `null`},
		{"Go", good, `[]`},
		{"Go", good, `7`},
		{"EOF", "}\n}\n", ""},
		{"after top-level value", "}\n}\n", "}\n} {}"},
		{"noise.gyro is missing", `"gyro": 0.2,`, ``},
		{"stagger is missing", `"stagger": true,`, ``},
		{"/noise/gyro is null", `"gyro": 0.2`, `"gyro": null`},
		{"/vary/kp/1 is null", `"kp": [0.9, 1.1]`, `"kp": [0.9, null]`},
		{"gravy", `"gyro": 0.2`, `"gyro": 0.2, "gravy": 1`},
		{"Gyro", `"gyro": 0.2`, `"Gyro": 0.2`},
		{"duplicate", `"gyro": 0.2`, `"gyro": 0.2, "gyro": 0.3`},
		{"gyro", `"gyro": 0.2`, `"gyro": "0.2"`},
		{"gyro", `"gyro": 0.2`, `"gyro": 1e999`},
		{"gyro", `"gyro": 0.2`, `"gyro": NaN`},
		{"noise.gyro is -0.2", `"gyro": 0.2`, `"gyro": -0.2`},
		{"kp", `"kp": [0.9, 1.1]`, `"kp": 1`},
		{"kp", `"kp": [0.9, 1.1]`, `"kp": [1]`},
		{"kp", `"kp": [0.9, 1.1]`, `"kp": [0.9, 1, 1.1]`},
		{"vary.kp is 1.1..0.9", `"kp": [0.9, 1.1]`, `"kp": [1.1, 0.9]`},
		{"stagger", `"stagger": true`, `"stagger": 1`},
		{"no multiple of 0.5 s lies within 0.001..0.02 s", `"latency": [0, 0.02],
		"latency_step": 0.005`, `"latency": [0.001, 0.02], "latency_step": 0.5`},
		{"at most 1048576", good, strings.Repeat(" ", MaxJSON) + good},
		{"invalid", good, "\xff"},
		{"depth", good, strings.Repeat("[", 20_000)},
	} {
		text := compactLists(good)
		old := c.old
		if old == good {
			old = text
		}
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in the world's JSON", old)
		}
		bad := strings.Replace(text, old, c.with, 1)
		if _, err := DecodeWorld([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q for %.40q: error %v, want %q", c.with[:min(40, len(c.with))], old, err, c.says)
		}
	}
}

// compactLists puts each list of numbers on one line, as people write them.
func compactLists(s string) string {
	var out strings.Builder
	list := false
	for _, line := range strings.SplitAfter(s, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(trimmed, "["):
			list = true
			out.WriteString(strings.TrimRight(line, "\n"))
		case list && strings.HasPrefix(trimmed, "]"):
			list = false
			out.WriteString(strings.TrimLeft(line, "\t"))
		case list && strings.HasSuffix(trimmed, ","):
			out.WriteString(trimmed + " ")
		case list:
			out.WriteString(trimmed)
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

func FuzzDecodeWorld(f *testing.F) {
	for _, name := range WorldNames() {
		w, _ := WorldByName(name)
		data, _ := w.Encode()
		f.Add(data)
		f.Add(bytes.Replace(data, []byte("0.2"), []byte("1e300"), 1))
	}
	f.Add([]byte(`{"commands":{"min":[0,0,0]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := DecodeWorld(data)
		if err != nil {
			return
		}
		again, err := w.Encode()
		if err != nil {
			t.Fatalf("decoded, but not encoded: %v", err)
		}
		if got, err := DecodeWorld(again); err != nil || *got != *w {
			t.Fatalf("%+v became %+v: %v", w, got, err)
		}
		// What is accepted can be drawn.
		r := NewRand(1, 0, StreamVary)
		var e Episode
		w.Vary.Draw(&r, &e)
		w.Pushes.Begin(&r, &e)
		c := NewCommander(w.Commands, 1, 0)
		c.Reset()
		if _, err := new(Episode).RestoreState(e.AppendState(nil)); err != nil {
			t.Fatalf("an episode of it: %v", err)
		}
		if _, err := c.RestoreState(c.AppendState(nil)); err != nil {
			t.Fatalf("a command of it: %v", err)
		}
	})
}

// Each member of World is documented in JSON's terms: tagged, and without options that
// would let it go missing.
func TestWorldTags(t *testing.T) {
	var check func(typ reflect.Type)
	check = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if tag := f.Tag.Get("json"); tag == "" || strings.ContainsAny(tag, ",-") {
				t.Errorf("%s.%s has the tag %q", typ.Name(), f.Name, tag)
			}
			if f.Type.Kind() == reflect.Struct {
				check(f.Type)
			}
		}
	}
	check(reflect.TypeFor[Evaluation]())
}
