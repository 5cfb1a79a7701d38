package virtual

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Fault is one thing that goes wrong, at a time. Its text form (ParseFault, String) is
//
//	KIND[,PARAM=VALUE...]@START[+DURATION][/EVERY]
//
//	joint_speed,joint=FR_calf,value=20,samples=5@walk+2      five states in a row, 2 s after it first walked
//	drop_state,p=0.02@0                                      2 % of the states, always
//	push,n=60,ms=200,dir=90@stand+1/5                        every 5 s a push to the left
//
// START is in seconds since the robot's start; or now; or walk or stand, each with +SECONDS behind it: since it first walked faster than
// 0.3 m/s for 1 s, or first stood still at standing height for 0.5 s. DURATION and EVERY are in seconds. Without DURATION and without the
// parameter samples a fault stays. Numbers may end in s or ms.
type Fault struct {
	Kind    string            `json:"kind" yaml:"kind"`
	Params  map[string]string `json:"params,omitempty" yaml:"params"`
	From    string            `json:"from,omitempty" yaml:"from"` // start (also ""), now, walk, stand: what At counts from
	At      float64           `json:"at" yaml:"at"`               // s
	For     float64           `json:"for,omitempty" yaml:"for"`   // s; 0: it stays
	Samples int               `json:"samples,omitempty" yaml:"samples"`
	Every   float64           `json:"every,omitempty" yaml:"every"` // s from start to start; 0: once
}

// bounds of a fault's own numbers.
const (
	maxFaultSeconds = 1e6
	maxFaultText    = 1000
	maxSamples      = 1e6
)

type paramType uint8

const (
	number paramType = iota
	joint            // name or SDK index; all where the kind allows it
	foot             // FR FL RR RL
	buttons
	word
)

type param struct {
	name    string
	typ     paramType
	value   string // default; "" is required
	lo, hi  float64
	words   []string // of word; the first words of a joint beyond the 12
	meaning string
}

type kind struct {
	name    string
	doc     string
	params  []param
	physics bool // acts on the robot, not on what it says
	once    bool // has no duration
}

func num(name, value string, lo, hi float64, meaning string) param {
	return param{name: name, value: value, lo: lo, hi: hi, meaning: meaning}
}

var (
	share    = num("p", "1", 0, 1, "share of the frames, drawn")
	oneJoint = param{name: "joint", typ: joint, value: "FR_thigh", meaning: "name such as FR_calf, or SDK index"}
	anyJoint = param{name: "joint", typ: joint, value: "all", words: []string{"all"}, meaning: "name, SDK index, or all"}
	oneFoot  = param{name: "foot", typ: foot, value: "FL", meaning: "FR, FL, RR or RL"}
)

// kinds is the table of what can go wrong; `clawsim robot --faults` prints it.
var kinds = []kind{
	{name: "drop_state", doc: "states are lost on their way", params: []param{share}},
	{name: "delay_state", doc: "states arrive late", params: []param{
		num("ms", "20", 0, 10000, "delay, ms"), num("ms_per_s", "0", 0, 10000, "growth of the delay, ms/s")}},
	{name: "duplicate_state", doc: "states arrive twice", params: []param{share}},
	{name: "reorder", doc: "states arrive in pairs, the newer first"},
	{name: "corrupt_state", doc: "one bit of the state is flipped, so its CRC is wrong", params: []param{share}},
	{name: "short_state", doc: "a datagram of bytes bytes more, behind the state", params: []param{num("bytes", "771", 1, 806, "length; 771 is an A1's")}},
	{name: "long_state", doc: "a datagram of bytes bytes more, behind the state", params: []param{num("bytes", "900", 808, 1472, "length")}},
	{name: "empty_state", doc: "a datagram of no bytes more, behind the state"},
	{name: "zeros_state", doc: "807 zero bytes instead of the state"},
	{name: "freeze_tick", doc: "the tick stands still, or the whole state", params: []param{
		{name: "what", typ: word, value: "tick", words: []string{"tick", "state"}, meaning: "tick or state"}}},
	{name: "imu_quat_zero", doc: "the quaternion is all zeros"},
	{name: "imu_quat_scale", doc: "the quaternion has another length", params: []param{num("scale", "0.5", -100, 100, "its length")}},
	{name: "imu_tilt", doc: "quaternion, accelerometer and rpy say another tilt", params: []param{
		num("rad", "0.7", -math.Pi, math.Pi, "tilt, rad"),
		{name: "axis", typ: word, value: "roll", words: []string{"roll", "pitch"}, meaning: "roll or pitch"},
		{name: "how", typ: word, value: "add", words: []string{"add", "set"}, meaning: "add to the true one, or set it"}}},
	{name: "gyro_nan", doc: "the gyroscope's x is NaN"},
	{name: "acc_nan", doc: "the accelerometer's z is NaN"},
	{name: "joint_nan", doc: "a joint's angle or speed is NaN", params: []param{oneJoint,
		{name: "what", typ: word, value: "q", words: []string{"q", "dq"}, meaning: "q or dq"}}},
	{name: "joint_speed", doc: "a joint's speed reads value", params: []param{oneJoint, num("value", "29", -1e6, 1e6, "rad/s")}},
	{name: "joint_offset", doc: "a joint's angle reads off by rad", params: []param{oneJoint, num("rad", "0.5", -100, 100, "rad")}},
	{name: "power", doc: "sum |tauEst dq| of the state is that many W, by torque and speed of FR_calf", params: []param{
		num("w", "800", 0, 2000, "W")}},
	{name: "power_nan", doc: "a joint's speed is infinite, so power is no number", params: []param{oneJoint}},
	{name: "temperature", doc: "a motor's temperature reads value", params: []param{anyJoint, num("value", "80", -128, 127, "C")}},
	{name: "motor_mode", doc: "a motor reports mode value", params: []param{anyJoint, num("value", "8", 0, 255, "mode byte, 8 is overheat")}},
	{name: "battery", doc: "the state of charge reads soc", params: []param{num("soc", "8", 0, 255, "%")}},
	{name: "cells_missing", doc: "all cell voltages read 0"},
	{name: "remote_absent", doc: "the hand remote's 40 bytes are zero"},
	{name: "remote_buttons", doc: "buttons of the hand remote are down", params: []param{
		{name: "buttons", typ: buttons, value: "L2+B", meaning: "names joined by +, or a number such as 0x220"}}},
	{name: "remote_sticks", doc: "sticks of the hand remote", params: []param{
		num("lx", "0", -1, 1, "left stick, right is +"), num("ly", "0", -1, 1, "left stick, forward is +"),
		num("rx", "0", -1, 1, "right stick, right is +"), num("ry", "0", -1, 1, "right stick, forward is +")}},
	{name: "foot_force_zero", doc: "all foot sensors read 0"},
	{name: "foot_force_offset", doc: "counts are added to the foot sensors", params: []param{
		num("fr", "20", -32768, 32767, "counts"), num("fl", "40", -32768, 32767, "counts"), num("rr", "60", -32768, 32767, "counts"),
		num("rl", "80", -32768, 32767, "counts"), num("drift", "0", -1000, 1000, "counts/s")}},
	{name: "foot_force_stuck", doc: "one foot sensor reads value", params: []param{oneFoot, num("value", "120", -32768, 32767, "counts")}},

	{name: "drop_command", doc: "commands are lost on their way to the robot", physics: true, params: []param{share}},
	{name: "delay_command", doc: "the motors get each command late", physics: true, params: []param{num("ms", "20", 0, 10000, "delay, ms")}},
	{name: "other_sender", doc: "another program's frames arrive between ours", physics: true, params: []param{
		{name: "what", typ: word, value: "damping", words: []string{"damping", "pose"}, meaning: "damping (Kd 3), or the pose home with kp"},
		num("kp", "60", 0, 1000, "of pose"), num("kd", "5", 0, 1000, "of pose"), num("share", "1", 0, 1, "share of the time that theirs are in force")}},
	{name: "push", doc: "a force on the trunk", physics: true, params: []param{
		num("n", "40", 0, 5000, "N"), num("ms", "100", 2, 1e6, "how long, ms, unless a duration is given"),
		num("dir", "90", -360, 360, "degrees from forward, to the left")}},
	{name: "kick", doc: "the robot's velocity changes at once", physics: true, once: true, params: []param{
		num("vx", "0", -10, 10, "m/s, forward"), num("vy", "0.3", -10, 10, "m/s, left"), num("vz", "0", -10, 10, "m/s, up")}},
	{name: "friction", doc: "the floor's friction", physics: true, params: []param{num("mu", "0.3", 0.01, 10, "sliding friction")}},
	{name: "restart", doc: "the robot's computer starts anew: motors without power, the robot lies folded, tick 0", physics: true, once: true,
		params: []param{num("down", "0", 0, 1e4, "s without an answer")}},
	{name: "sport_returns", doc: "the maker's sport mode takes the motors and opens its port", physics: true},
	{name: "clear", doc: "ends every fault in force and forgets those to come", physics: true, once: true},
}

func findKind(name string) *kind {
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	return nil
}

// FaultHelp is the table of kinds as text.
func FaultHelp() string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "%-18s %s\n", k.name, k.doc)
		for _, p := range k.params {
			fmt.Fprintf(&b, "  %-16s %s (default %s)\n", p.name, p.meaning, p.value)
		}
	}
	b.WriteString("samples=N ends any of them after N states instead of a duration.\n")
	return b.String()
}

// ParseFault reads a fault's text form. Its error names the part that is wrong.
func ParseFault(text string) (Fault, error) {
	if len(text) > maxFaultText {
		return Fault{}, fmt.Errorf("virtual: fault of %d bytes, at most %d", len(text), maxFaultText)
	}
	bad := func(format string, a ...any) (Fault, error) {
		return Fault{}, fmt.Errorf("virtual: fault %q: %s", text, fmt.Sprintf(format, a...))
	}
	what, when, found := strings.Cut(text, "@")
	if !found {
		return bad("no @START, such as @2.5, @now or @walk+1")
	}
	items := strings.Split(what, ",")
	f := Fault{Kind: strings.TrimSpace(items[0])}
	for _, item := range items[1:] {
		key, value, found := strings.Cut(item, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !found || key == "" || value == "" {
			return bad("%q is not PARAM=VALUE", item)
		}
		if key == "samples" {
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return bad("samples: %q is not a whole number from 1", value)
			}
			f.Samples = n
			continue
		}
		if _, twice := f.Params[key]; twice {
			return bad("%s is given twice", key)
		}
		if f.Params == nil {
			f.Params = map[string]string{}
		}
		f.Params[key] = value
	}
	when, every, repeats := strings.Cut(when, "/")
	if repeats {
		v, err := parseSeconds(every)
		if err != nil {
			return bad("EVERY %v", err)
		}
		if v == 0 {
			return bad("EVERY is 0")
		}
		f.Every = v
	}
	times := strings.Split(when, "+")
	f.From = strings.TrimSpace(times[0])
	switch f.From {
	case "walk", "stand":
		times = times[1:]
	case "now":
		times[0] = "0"
	default:
		f.From = ""
	}
	if len(times) > 2 {
		return bad("more than START+DURATION in %q", when)
	}
	for i, into := range []*float64{&f.At, &f.For} {
		if i >= len(times) {
			break
		}
		v, err := parseSeconds(times[i])
		if err != nil {
			return bad("%s %v", [...]string{"START", "DURATION"}[i], err)
		}
		if i == 1 && v == 0 {
			return bad("DURATION is 0")
		}
		*into = v
	}
	if err := f.Validate(); err != nil {
		return bad("%s", strings.TrimPrefix(err.Error(), "virtual: "))
	}
	return f, nil
}

// parseSeconds reads a number of seconds, with or without s or ms behind it.
func parseSeconds(text string) (float64, error) {
	text = strings.TrimSpace(text)
	digits, scale := text, 1.
	if d, ok := strings.CutSuffix(text, "ms"); ok {
		digits, scale = d, 1e-3
	} else if d, ok := strings.CutSuffix(text, "s"); ok {
		digits = d
	}
	v, err := strconv.ParseFloat(digits, 64)
	v *= scale
	if err != nil || !(v >= 0 && v <= maxFaultSeconds) || strings.ContainsAny(digits, "xX_") {
		return 0, fmt.Errorf("%q is not a number of seconds from 0 to %g", text, maxFaultSeconds)
	}
	return v, nil
}

// String is the text form; ParseFault of it gives an equal fault.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Kind)
	if k := findKind(f.Kind); k != nil {
		for _, p := range k.params {
			if v, ok := f.Params[p.name]; ok {
				b.WriteString("," + p.name + "=" + v)
			}
		}
	}
	if f.Samples > 0 {
		fmt.Fprintf(&b, ",samples=%d", f.Samples)
	}
	seconds := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	b.WriteString("@")
	switch f.From {
	case "walk", "stand":
		b.WriteString(f.From + "+" + seconds(f.At))
	case "now":
		b.WriteString("now")
	default:
		b.WriteString(seconds(f.At))
	}
	if f.For > 0 {
		b.WriteString("+" + seconds(f.For))
	}
	if f.Every > 0 {
		b.WriteString("/" + seconds(f.Every))
	}
	return b.String()
}

// Validate names what cannot be meant.
func (f *Fault) Validate() error {
	_, err := f.values()
	return err
}

// values checks the fault and gives its parameters as numbers: a joint is its index, or 12 for all; a word its place in the list.
func (f *Fault) values() (map[string]float64, error) {
	k := findKind(f.Kind)
	if k == nil {
		return nil, fmt.Errorf("virtual: unknown kind of fault %q (see clawsim robot --faults)", f.Kind)
	}
	bad := func(format string, a ...any) (map[string]float64, error) {
		return nil, fmt.Errorf("virtual: %s: %s", f.Kind, fmt.Sprintf(format, a...))
	}
	switch f.From {
	case "", "start", "now", "walk", "stand":
	default:
		return bad("from %q, want start, now, walk or stand", f.From)
	}
	for _, t := range []struct {
		name string
		v    float64
	}{{"at", f.At}, {"for", f.For}, {"every", f.Every}} {
		if !(t.v >= 0 && t.v <= maxFaultSeconds) {
			return bad("%s is %v, want 0..%g s", t.name, t.v, maxFaultSeconds)
		}
	}
	if f.Samples < 0 || f.Samples > maxSamples {
		return bad("samples is %d, want 0..%g", f.Samples, float64(maxSamples))
	}
	if k.once && (f.For > 0 || f.Samples > 0) {
		return bad("has no duration")
	}
	if f.From == "now" && f.At != 0 {
		return bad("from now has no at")
	}
	if f.Every > 0 && f.For >= f.Every {
		return bad("lasts %v s, but begins anew every %v s", f.For, f.Every)
	}
	values := map[string]float64{}
	for _, p := range k.params {
		text, given := f.Params[p.name]
		if !given {
			text = p.value
		}
		v, err := p.parse(text)
		if err != nil {
			return bad("%s %v", p.name, err)
		}
		values[p.name] = v
	}
	for name := range f.Params {
		if _, known := values[name]; !known {
			names := []string{}
			for _, p := range k.params {
				names = append(names, p.name)
			}
			return bad("has no parameter %q (it has: %s)", name, strings.Join(append(names, "samples"), ", "))
		}
	}
	return values, nil
}
