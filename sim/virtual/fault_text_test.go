package virtual_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/sim/virtual"
)

func TestParseFault(t *testing.T) {
	for text, want := range map[string]virtual.Fault{
		"drop_state@1.5":                       {Kind: "drop_state", At: 1.5},
		"drop_state@now":                       {Kind: "drop_state", From: "now"},
		"drop_state@now+40ms":                  {Kind: "drop_state", From: "now", For: 0.04},
		"drop_state@walk":                      {Kind: "drop_state", From: "walk"},
		"drop_state@walk+2":                    {Kind: "drop_state", From: "walk", At: 2},
		"drop_state@stand+2+0.1/5":             {Kind: "drop_state", From: "stand", At: 2, For: 0.1, Every: 5},
		"drop_state,samples=99@0/0.1":          {Kind: "drop_state", Samples: 99, Every: 0.1},
		"battery,soc=1e1@0":                    {Kind: "battery", Params: map[string]string{"soc": "1e1"}},
		"motor_mode,value=0x0A@0":              {Kind: "motor_mode", Params: map[string]string{"value": "0x0A"}},
		"drop_state@1000000":                   {Kind: "drop_state", At: 1e6},
		"kick@1/0.1":                           {Kind: "kick", At: 1, Every: 0.1},
		"turn,ms=1000,stay=500@1/2.6":          {Kind: "turn", At: 1, Every: 2.6, Params: map[string]string{"ms": "1000", "stay": "500"}},
		"drop_state , p=0.5 @ 3 + 1s":          {Kind: "drop_state", At: 3, For: 1, Params: map[string]string{"p": "0.5"}},
		"joint_speed,joint=2,samples=5@walk":   {Kind: "joint_speed", From: "walk", Samples: 5, Params: map[string]string{"joint": "2"}},
		"remote_buttons,buttons=L1+L2+start@0": {Kind: "remote_buttons", Params: map[string]string{"buttons": "L1+L2+start"}},
	} {
		got, err := virtual.ParseFault(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
			continue
		}
		if again, err := virtual.ParseFault(got.String()); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%s -> %s: %+v, %v", text, got, again, err)
		}
	}
	for text, part := range map[string]string{
		"":                                            "@START",
		"drop_state":                                  "@START",
		"earthquake@1":                                `unknown kind of fault "earthquake"`,
		"drop_state@":                                 "START",
		"drop_state@soon":                             "START",
		"drop_state@-1":                               "START",
		"drop_state@NaN":                              "START",
		"drop_state@1e9":                              "START",
		"drop_state@0x10":                             "START",
		"drop_state@1+2+3":                            "more than START+DURATION",
		"drop_state@1+0":                              "DURATION is 0",
		"drop_state@1+x":                              "DURATION",
		"drop_state@1/0":                              "EVERY is 0",
		"drop_state@1/x":                              "EVERY",
		"drop_state@1+2/1":                            "lasts 2 s, but begins anew every 1 s",
		"battery,soc=5@1/5":                           "nothing ends it",
		"battery,soc=8.9@1":                           `soc is "8.9", want a whole number, 0..255`,
		"temperature,value=84.9@1":                    "value is \"84.9\", want a whole number",
		"motor_mode,value=0.5@1":                      "whole number",
		"motor_mode,value=0X1p3@1":                    "value",
		"motor_mode,value=-0x1@1":                     "value",
		"cells_missing,n=1.9@1":                       "n is \"1.9\", want a whole number",
		"foot_force_stuck,value=0.1@1":                "whole number",
		"short_state,bytes=770.5@1":                   "whole number",
		"long_state,bytes=900.5@1":                    "whole number",
		"hand,how=hold@1/5":                           "nothing ends it",
		"push,ms=6000@1/5":                            "lasts 6 s, but begins anew every 5 s",
		"press,ms=500@now/0.5":                        "lasts 0.5 s",
		"turn,ms=1000,stay=500@1/2.5":                 "lasts 2.5 s",
		"restart,down=3@1/2":                          "lasts 3 s",
		"delay_command,samples=50@1/0.1":              "lasts 0.1 s",
		"drop_state,p@1":                              `"p" is not PARAM=VALUE`,
		"drop_state,p=2@1":                            `p is "2", want 0..1`,
		"drop_state,p=0.1,p=0.2@1":                    "p is given twice",
		"drop_state,q=1@1":                            `no parameter "q"`,
		"drop_state,samples=0@1":                      "samples",
		"drop_state,samples=1e3@1":                    "samples",
		"joint_speed,joint=FR_knee@1":                 "joint",
		"joint_speed,joint=12@1":                      "joint",
		"joint_speed,joint=all@1":                     "joint",
		"joint_speed,value=NaN@1":                     "value",
		"foot_force_stuck,foot=4@1":                   "foot",
		"imu_tilt,axis=yaw@1":                         "roll or pitch",
		"motor_mode,value=256@1":                      "value",
		"remote_buttons,buttons=L2+C@1":               `"C" is not a button`,
		"remote_buttons,buttons=0x1FFF0@1":            "button",
		"power,w=" + strings.Repeat("0", 100) + "1@1": "w has 101 bytes, at most 100",
		"kick@1+2":                                    "has no duration",
		"imu_mirror,axis=roll@1":                      "axis is \"roll\", want x or y or z",
		"gyro_sign,axis=w@1":                          "axis",
		"gyro_units,by=2@1":                           `no parameter "by"`,
		"gyro_scale,scale=Inf@1":                      "scale",
		"gyro_scale,axis=all@1":                       "axis",
		"gyro_swapped,b=x@1":                          "a and b are the same",
		"gyro_swapped,a=w@1":                          "a is \"w\", want x or y or z",
		"acc_sign,axis=none@1":                        "axis",
		"acc_swapped,a=z,b=z@1":                       "a and b are the same",
		"imu_quat_conj,axis=x@1":                      `no parameter "axis"`,
		"imu_turned,axis=yaw@1":                       "axis",
		"imu_turned,deg=361@1":                        "deg",
		"imu_turned,rad=1@1":                          `no parameter "rad"`,
		"joint_speed_scale,joint=all@1":               "joint",
		"joint_speed_scale,scale=NaN@1":               "scale",
		"joint_order,order=sdk@1":                     "order is \"sdk\", want legged_gym or isaac or isaac_back",
		"motors_swapped,a=FL_thigh@1":                 "a and b are the same",
		"motors_swapped,a=1,b=FR_thigh@1":             "a and b are the same",
		"motors_swapped,a=all@1":                      "a",
		"buttons_swapped,a=R2@1":                      "a and b are the same",
		"buttons_swapped,a=L2+B@1":                    "a is",
		"buttons_swapped,b=0x2@1":                     "b is",
		"sticks_swapped,b=lx@1":                       "a and b are the same",
		"sticks_swapped,a=left@1":                     "a is",
		"stick_reversed,stick=x@1":                    "stick is",
		"foot_reversed,foot=all@1":                    "foot",
		"imu_noise,gyro=-1@1":                         "gyro",
		"imu_noise,quat=4@1":                          "quat",
		"joint_noise,dq=1e9@1":                        "dq",
		"joint_stuck,joint=tail@1":                    "joint",
		"legs_swapped,b=FR@1":                         "a and b are the same",
		"legs_swapped,a=7@1":                          "a",
		"joints_swapped,a=calf@1":                     "a and b are the same",
		"joints_swapped,a=knee@1":                     "a",
		"feet_swapped,a=FL@1":                         "a and b are the same",
		"joint_reversed,joint=all@1":                  "joint",
		"motor_drop,joint=all@1":                      "joint",
		"temperature_ramp,per_s=NaN@1":                "per_s",
		"cells,mv=9000@1":                             "mv",
		"cells_missing,n=0@1":                         "n",
		"foreign_state,what=nothing@1":                "what",
		"foreign_state,from=::1@1":                    "from",
		"foreign_state,from=0.0.0.0@1":                "from",
		"foreign_state,from=224.0.0.1@1":              "from",
		"foreign_state,from=255.255.255.255@1":        "from",
		"foreign_state,from=127.0.0.2:80@1":           "from",
		"foreign_state,from=somebody@1":               "such as 127.0.0.2",
		"duplicate_command,p=1.5@1":                   "p",
		"reorder_command,p=1@1":                       `no parameter "p"`,
		"corrupt_command,p=-1@1":                      "p",
		"turn,axis=x@1":                               "axis",
		"turn,rad=4@1":                                "rad",
		"turn,ms=1@1":                                 "ms",
		"hand,how=away@1":                             "how",
		"hand,nm=1e3@1":                               "nm",
		"press,foot=FX@1":                             "foot",
		"press,net=2@1":                               "net",
		"drop_state@1" + strings.Repeat(" ", 1000):    "at most",
	} {
		if f, err := virtual.ParseFault(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %+v, %v; want an error with %q", text, f, err, part)
		}
	}
}

func TestScript(t *testing.T) {
	good := `
# a walk with troubles
- drop_state,p=0.02@0
- kind: joint_speed
  params: {joint: FR_calf, value: 20}
  from: walk
  at: 2
  samples: 5
- "push,n=60@stand+1/5"
`
	faults, err := virtual.ReadScript("s.yaml", strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	want := []virtual.Fault{
		{Kind: "drop_state", Params: map[string]string{"p": "0.02"}},
		{Kind: "joint_speed", Params: map[string]string{"joint": "FR_calf", "value": "20"}, From: "walk", At: 2, Samples: 5},
		{Kind: "push", Params: map[string]string{"n": "60"}, From: "stand", At: 1, Every: 5},
	}
	if !reflect.DeepEqual(faults, want) {
		t.Errorf("got %+v", faults)
	}
	for script, part := range map[string]string{
		"- drop_state@0\n\n- earthquake@0": "line 3, fault 2: ",
		"[[[[1]]]]":                        "line 1: nested too deep",
		"- drop_state@0\n" + strings.Repeat("[\n", 100000): "line 5: nested too deep",
		strings.Repeat("]", 10) + strings.Repeat("[", 10):  "nested too deep",
		"- drop_state@0\n- - - - 1":                        "line 2: nested too deep",
		"- drop_state@0\n- ? ? ? ? 1":                      "line 2: nested too deep",
		"- ":                                               "line 1, fault 1: want a mapping",
		"- true":                                           "fault 1: want a mapping",
		"- {kind: ~}":                                      "kind: want one value",
		"- {kind: [a]}":                                    "kind: want one value",
		"kind: drop_state":                                 "list",
		"- kind: drop_state\n  when: 3":                    "fault 1: ",
		"- kind: drop_state\n  kind: power":                "s.yaml",
		"- at: 3":                                          "no kind",
		"- kind: drop_state\n  at: soon":                   "fault 1: ",
		"- [1, 2]":                                         "fault 1: ",
		"- kind: drop_state\n  at: .nan":                   "fault 1: ",
		"- &a drop_state@0\n- *a":                          "fault 1",
		"{":                                                "s.yaml",
		"- " + strings.Repeat("x", 2<<20):                  "longer than",
		"- kind: power\n  params: {w: 1, volts: 2}":        `"volts"`,
		"- {kind: power, for: 0}":                          "for is 0",
		"- {kind: power, every: 0}":                        "every is 0",
		"- {kind: power, samples: 0}":                      "samples is 0",
		"- {kind: power, samples: 1.5}":                    `samples: "1.5" is not a whole number from 1`,
		"- {kind: power, params: 5}":                       "params: want a mapping",
		"- {kind: power, params: [5]}":                     "want a mapping",
		"- {kind: power, every: 5}":                        "nothing ends it",
		"- {kind: battery, params: {soc: 8.9}}":            "whole number",
	} {
		if f, err := virtual.ReadScript("s.yaml", strings.NewReader(script)); err == nil || !strings.Contains(err.Error(), part) ||
			!strings.Contains(err.Error(), "s.yaml") {
			t.Errorf("%.40q: %+v, %v; want an error with %q", script, f, err, part)
		}
	}
	oneLine := `[{kind: kick, at: 1}, {kind: clear, at: 2}, {kind: reorder}, {kind: drop_state}, {kind: gyro_sign, params: {axis: y}}] # [[[[`
	if f, err := virtual.ReadScript("one line", strings.NewReader(oneLine)); err != nil || len(f) != 5 || f[4].Params["axis"] != "y" {
		t.Errorf("a script on one line: %v, %v", f, err)
	}
	if f, err := virtual.ReadScript("empty", strings.NewReader("")); err != nil || len(f) != 0 {
		t.Errorf("an empty script: %v, %v", f, err)
	}
}

func FuzzFault(f *testing.F) {
	for _, s := range []string{"drop_state@1", "push,n=60,ms=200,dir=90@stand+1+2/5", "remote_buttons,buttons=L2+B,samples=3@walk+1",
		"imu_tilt,rad=1,axis=pitch,how=set@now+10ms", "turn,axis=yaw,rad=-0.5,ms=800,stay=100,how=hold@stand+1/9", "hand,joint=11,rad=-0.3,nm=20@now+3",
		"press,foot=RL,n=60,net=0@walk", "legs_swapped,a=FR,b=RL@0", "joints_swapped,leg=RR,a=hip,b=calf@0+1", "foreign_state,what=lie,p=0.5,samples=9@2",
		"cells,mv=3700,spread=200@1", "imu_noise,gyro=0.1,acc=1,quat=0.01@now", "legs_swapped,a=FL@1", "reorder_command,samples=2@0", "@", ",@/+", "kick@1e400", "joint_nan,joint=FR_calf@0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fault, err := virtual.ParseFault(text)
		if err != nil {
			return
		}
		if err := fault.Validate(); err != nil {
			t.Fatalf("%q was taken, but is not valid: %v", text, err)
		}
		again, err := virtual.ParseFault(fault.String())
		if err != nil || !reflect.DeepEqual(again, fault) {
			t.Fatalf("%q -> %q -> %+v, %v", text, fault, again, err)
		}
	})
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{"- drop_state@1", "- kind: power\n  params: {w: 1}", "[{kind: kick, at: 1}, {kind: reorder, for: 2, every: 5}]", "- [", "a: b", "- - - -", "[[[[", "- kind: kick\n  at: 1\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := virtual.ReadScript("script", strings.NewReader(text))
		if err == nil {
			for _, fault := range faults {
				if err := fault.Validate(); err != nil {
					t.Fatalf("%q was taken, but %+v is not valid: %v", text, fault, err)
				}
			}
		}
	})
}

func TestFaultHelpNamesEveryKindAndParameter(t *testing.T) {
	help := virtual.FaultHelp()
	for _, word := range []string{"drop_state", "imu_tilt", "axis", "sport_returns", "samples=N", "ms_per_s"} {
		if !strings.Contains(help, word) {
			t.Errorf("no %s", word)
		}
	}
}
