package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
)

// print writes the report for people.
func (r *report) print(w io.Writer) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }
	line("file", shown(r.File))
	line("sha256", r.SHA256)
	line("bytes", fmt.Sprint(r.Bytes))
	line("producer", shown(r.Producer))
	line("format", fmt.Sprintf("ONNX IR %d, opset %d", r.IRVersion, r.Opset))
	for _, x := range r.Inputs {
		line("input", x.String())
	}
	for _, x := range r.Outputs {
		line("output", x.String())
	}
	for _, e := range r.External {
		line("weights in", fmt.Sprintf("%s, %d bytes", shown(e.Name), e.Bytes))
	}
	if len(r.MetadataKeys) > 0 {
		line("metadata", shown(strings.Join(r.MetadataKeys, ", ")))
	}
	if c := r.Contract; c != nil {
		line("contract", fmt.Sprintf("%s (version %d, found: %s)", shown(c.Name), c.Version, r.ContractSource))
		origin(line, c)
	} else {
		line("contract", fmt.Sprintf("no contract: none in the metadata (%s), no %s beside the file, and its sha256 is not known",
			contract.Key, shown(filepath.Base(r.File)+contract.Suffix)))
	}
	t.Flush()
	if r.Contract != nil {
		printContract(&b, r.Contract)
		r.printVerdicts(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// origin prints where the policy came from.
func origin(line func(...string), c *contract.Contract) {
	for _, f := range [][2]string{{"license", c.License}, {"source", c.Source}} {
		if f[1] != "" {
			line(f[0], shown(f[1]))
		}
	}
	if t := c.Training; t != nil {
		line("training", shown(fmt.Sprintf("run %s, iteration %d, commit %s, world %s, parent %s", t.Run, t.Iteration, orElse(t.Commit, "-"), orElse(t.World, "-"), orElse(t.Parent, "-"))))
		if t.Steps > 0 || t.Seconds > 0 {
			line("trained for", fmt.Sprintf("%d steps of robots, %.1f s", t.Steps, t.Seconds))
		}
		if t.Command != "" {
			line("trained by", shown(t.Command))
		}
		for i, p := range t.Curve {
			head := ""
			if i == 0 {
				head = "on the way"
			}
			line(head, fmt.Sprintf("after %8.3f M steps: %.3f m/s, %.3f rad/s, falls %.1f %%", float64(p.Steps)/1e6, p.VelErr, p.YawErr, 100*p.FallRate))
		}
	}
	if e := c.Evaluation; e != nil {
		line("evaluation", shown(fmt.Sprintf("%s, %d rows x %g s: %.3f m/s, %.3f rad/s, falls %.1f %%, %.0f W, action rate %.3f rad", e.Suite, e.Rows, e.Seconds, e.VelErr, e.YawErr, 100*e.FallRate, e.PowerW, e.ActionRate)))
	}
	for _, n := range c.Notes {
		line("note", shown(n))
	}
}

func printContract(b *bytes.Buffer, c *contract.Contract) {
	fmt.Fprintf(b, "\nrobot %s, %d joints\n", shown(c.Robot), len(c.Joints))
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  joint\thome rad\taction scale rad\tkp N*m/rad\tkd N*m*s/rad")
	for i, j := range c.Joints {
		fmt.Fprintf(t, "  %s\t%v\t%v\t%v\t%v\n", shown(j), c.Home[i], c.Action.Scale[i], c.Kp[i], c.Kd[i])
	}
	t.Flush()
	fmt.Fprintf(b, "  target = home + scale * output, output clipped to %s\n", span(c.Action.Clip))

	for i := range c.Groups {
		g := &c.Groups[i]
		fmt.Fprintf(b, "\nobservation %q, %d numbers, history laid out by %s\n", g.Name, g.Size(), g.Layout)
		fmt.Fprintln(t, "  term\tsize\tscale\tclip\thistory\tsensed")
		for _, x := range g.Terms {
			fmt.Fprintf(t, "  %s\t%d\t%v\t%s\t%s\t%s\n", shown(x.Name), x.Size, x.Scale, span(x.Clip), history(x), yesNo(x.Sensed))
		}
		t.Flush()
	}

	fmt.Fprintf(b, "\nrates\n  policy %g Hz, control %g Hz\n", 1e9/float64(c.PolicyPeriodNs), 1e9/float64(c.ControlPeriodNs))
	fmt.Fprintf(b, "commands\n  vx %s m/s, vy %s m/s, yaw %s rad/s\n", span(&c.Command.Vx), span(&c.Command.Vy), span(&c.Command.Wz))
	if c.Clock.Hz > 0 {
		fmt.Fprintf(b, "clock\n  %v Hz from %v cycles, stands at or below a command of %v\n", c.Clock.Hz, c.Clock.Start, c.Clock.MinCommand)
	}
	fmt.Fprintln(b, "normaliser")
	if n := c.Normaliser; n != nil {
		where := "outside the graph"
		if n.InGraph {
			where = "in the graph"
		}
		fmt.Fprintf(b, "  mean %s, std %s, %s\n", spread(n.Mean), spread(n.Std), where)
	} else {
		fmt.Fprintf(b, "  %s\n", contract.NotProven)
	}
}

// printVerdicts prints what was tried rather than read.
func (r *report) printVerdicts(b *bytes.Buffer) {
	if g := r.Golden; g != nil {
		fmt.Fprintln(b, "golden pairs")
		switch g.Result {
		case "replayed":
			fmt.Fprintf(b, "  %d replayed with ONNX Runtime %s, largest difference %.3g\n", g.Pairs, g.Runtime, g.MaxDiff)
		case "none":
			fmt.Fprintln(b, "  none: nothing proves that the network computes what was trained")
		default:
			fmt.Fprintf(b, "  %d, %s: %s\n", g.Pairs, g.Result, shown(g.Why))
		}
	}
	if f := r.Go1; f != nil {
		fmt.Fprintln(b, "Go1")
		if !f.Fits {
			fmt.Fprintf(b, "  does not fit: %s\n", shown(f.Why))
			return
		}
		fmt.Fprintln(b, "  fits")
		for _, n := range f.Needs {
			fmt.Fprintf(b, "  needs %s\n", shown(n))
		}
	}
}

func (t tensor) String() string {
	dims := make([]string, len(t.Dims))
	for i, d := range t.Dims {
		dims[i] = "any"
		if d >= 0 {
			dims[i] = fmt.Sprint(d)
		}
	}
	return fmt.Sprintf("%s  %s [%s]", shown(t.Name), t.Type, strings.Join(dims, ", "))
}

func span(r *[2]float32) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%v..%v", r[0], r[1])
}

func spread(v []float32) string {
	lo, hi := v[0], v[0]
	for _, x := range v {
		lo, hi = min(lo, x), max(hi, x)
	}
	return fmt.Sprintf("%.4g..%.4g", lo, hi)
}

func history(t rollout.Term) string {
	if t.History == 1 {
		return "1"
	}
	return fmt.Sprintf("%d %s first", t.History, orElse(string(t.Order), string(rollout.OldestFirst)))
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// shown is s, quoted if it holds what would move a terminal's cursor: names in a
// file are a stranger's.
func shown(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
