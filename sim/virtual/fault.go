package virtual

import (
	"errors"
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
// START is in seconds since the robot's start, and at once where that has passed; or now; or walk or stand, each with +SECONDS behind it:
// since it first walked faster than 0.3 m/s for 1 s, or first stood still at standing height for 0.5 s. DURATION and EVERY are in seconds.
// Without DURATION and without the parameter samples a fault stays, but for what has a length of its own (push, press, turn, hand). What
// begins anew EVERY so often must end before. Numbers may end in s or ms.
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
	maxParamText    = 100
	maxSamples      = 1e6
)

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
	seconds := func(v float64) string { // without the + of an exponent, which would begin a DURATION
		return strings.Replace(strconv.FormatFloat(v, 'g', -1, 64), "e+", "e", 1)
	}
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

// validate is Validate of what was read key by key: a number that is given is more than 0, where 0 stands for one that is not.
func (f *Fault) validate(given func(key string) bool) error {
	switch {
	case f.Kind == "":
		return errors.New("virtual: fault has no kind")
	case given("for") && f.For == 0:
		return fmt.Errorf("virtual: %s: for is 0", f.Kind)
	case given("every") && f.Every == 0:
		return fmt.Errorf("virtual: %s: every is 0", f.Kind)
	case given("samples") && f.Samples == 0:
		return fmt.Errorf("virtual: %s: samples is 0", f.Kind)
	}
	return f.Validate()
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
	if a, b := f.Params["a"], f.Params["b"]; values["a"] == values["b"] && (a != "" || b != "") {
		return bad("a and b are the same")
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
	switch lasts := k.lasts(f, values); {
	case f.Every == 0:
	case math.IsInf(lasts, 1):
		return bad("begins anew every %v s, but nothing ends it: it needs a duration, such as @1+0.5/5, or samples", f.Every)
	case lasts >= f.Every:
		return bad("lasts %v s, but begins anew every %v s", lasts, f.Every)
	}
	return values, nil
}

// lasts is how long a fault with these values lasts, s; infinite: it stays. What ends after a number of states or commands, which take
// the time that they take, and what happens at once lasts 0.
func (k *kind) lasts(f *Fault, values map[string]float64) float64 {
	switch {
	case f.For > 0:
		return f.For
	case f.Samples > 0 && k.counts == steps:
		return float64(f.Samples) * stepSeconds
	case f.Samples > 0:
		return 0
	case k.once:
		return values["down"] // of restart
	case k.name == "push", k.name == "press":
		return values["ms"] / 1e3
	case k.way() && values["how"] == 0:
		return (2*values["ms"] + values["stay"]) / 1e3
	}
	return math.Inf(1)
}
