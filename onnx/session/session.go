package session

import (
	"errors"
	"fmt"
	"path/filepath"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
)

// Errors of this package that callers tell apart.
var (
	ErrNonFinite = errors.New("not a finite number")
	ErrGolden    = errors.New("the network does not compute what its contract says")
	ErrClosed    = errors.New("session: policy is closed")
)

// MaxRows bounds Options.Rows.
const MaxRows = 1 << 16

// Options of Open. The zero value is for one robot.
type Options struct {
	// Rows is how many rows a graph with a free batch computes at once (0: 1);
	// Act takes any number of rows and cuts them into runs of this many. A graph
	// whose batch is fixed at 1 computes row by row, whatever Rows says.
	Rows int
	// Env is the Spec that the policy will act in: Open refuses one that does not
	// fit, and looks up where the group "policy" lies in its Steps. Nil: that
	// group lies where the contract lists it.
	Env *rollout.Spec
}

// Policy is a loaded policy; it is a rollout.Policy. It is used by one goroutine
// at a time and keeps nothing from one call to the next.
type Policy struct {
	contract *contract.Contract
	spec     rollout.Spec
	group    int // index of "policy" in Step.Obs
	rows     int // rows of one run
	obsDim   int
	actDim   int
	maxDiff  float32 // over all golden pairs
	net      *net    // nil: closed
}

// Open loads a policy with ONNX Runtime and replays its golden pairs. The file
// is one that contract.Load gave; its Bytes are what is loaded. See the package
// comment before opening many.
func Open(file *contract.File, o Options) (*Policy, error) {
	if o.Rows < 0 || o.Rows > MaxRows {
		return nil, fmt.Errorf("session: Rows is %d, want 0..%d", o.Rows, MaxRows)
	}
	if err := file.Check(); err != nil {
		return nil, err
	}
	c := file.Contract
	p := &Policy{contract: c, spec: c.Spec, rows: 1, actDim: c.ActDim(), obsDim: c.Group("policy").Size()}
	p.spec.Rows = max(o.Rows, 1)
	p.group = c.GroupIndex("policy")
	if o.Env != nil {
		if err := o.Env.Fits(&c.Spec); err != nil {
			return nil, err
		}
		p.group = o.Env.GroupIndex("policy")
	}
	if file.Model.Batched() {
		p.rows = p.spec.Rows
	}
	if _, err := Library(); err != nil {
		return nil, err
	}
	var err error
	onOrdinaryThread(func() { p.net, err = newNet(file, p.rows, p.obsDim, p.actDim, oneThread) })
	if err != nil {
		return nil, fmt.Errorf("session: %s: %w", file.Path, err)
	}
	if err := p.replay(); err != nil {
		p.Close()
		return nil, fmt.Errorf("session: %s: %w", file.Path, err)
	}
	return p, nil
}

// replay computes every golden pair and compares.
func (p *Policy) replay() error {
	if p.contract.Golden == nil {
		return nil
	}
	action := make([]float32, p.actDim)
	for i, g := range p.contract.Golden.Pairs {
		if err := p.Infer(g.Obs, action); err != nil {
			return fmt.Errorf("golden pair %d: %w", i, err)
		}
		worst, at := float32(0), 0
		for k := range action {
			if d := abs32(action[k] - g.Action[k]); d > worst {
				worst, at = d, k
			}
		}
		if worst > p.contract.Tolerance() {
			return fmt.Errorf("%w: golden pair %d: action[%d] (%s) differs by %.3g, tolerance %v",
				ErrGolden, i, at, p.spec.Joints[at], worst, p.contract.Tolerance())
		}
		p.maxDiff = max(p.maxDiff, worst)
	}
	return nil
}

// Golden says how many golden pairs Open replayed and the largest difference, in
// units of network output.
func (p *Policy) Golden() (pairs int, maxDiff float32) {
	if g := p.contract.Golden; g != nil {
		pairs = len(g.Pairs)
	}
	return pairs, p.maxDiff
}

// Contract is the contract of the file; not to be changed.
func (p *Policy) Contract() *contract.Contract { return p.contract }

// Spec is what the policy was trained on; Rows is Options.Rows.
func (p *Policy) Spec() rollout.Spec { return p.spec }

// Reset does nothing: history, clock and previous action belong to whoever steps
// the policy, and the graph has no state.
func (p *Policy) Reset([]int) {}

// Act fills out for every row of step: Action from the network, Acted Student,
// LogProb 0, Labelled false. An observation or action that is not finite is
// ErrNonFinite and names row and element; out is then not to be used. It does not
// allocate.
func (p *Policy) Act(step *rollout.Step, out *rollout.Decision) error {
	if p.group >= len(step.Obs) {
		return fmt.Errorf("session: step has %d observation groups, \"policy\" is expected at %d", len(step.Obs), p.group)
	}
	obs := step.Obs[p.group]
	rows := len(out.Action) / p.actDim
	if len(out.Action) != rows*p.actDim || len(obs) != rows*p.obsDim {
		return fmt.Errorf("session: %d observation numbers and %d action numbers are not rows of %d and %d",
			len(obs), len(out.Action), p.obsDim, p.actDim)
	}
	for row := 0; row < rows; row += p.rows {
		n := min(p.rows, rows-row)
		if err := p.run(row, obs[row*p.obsDim:(row+n)*p.obsDim], out.Action[row*p.actDim:(row+n)*p.actDim]); err != nil {
			return err
		}
	}
	for i := range out.Acted {
		out.Acted[i] = rollout.Student
	}
	clear(out.LogProb)
	out.Labelled = false
	return nil
}

// Infer computes one row: obs is an observation of the group "policy", after
// scale and clip; action gets the network's output before Action.Clip and
// Action.Scale. Errors as Act's; it does not allocate.
func (p *Policy) Infer(obs, action []float32) error {
	if len(obs) != p.obsDim || len(action) != p.actDim {
		return fmt.Errorf("session: %d observation numbers and %d action numbers, want %d and %d", len(obs), len(action), p.obsDim, p.actDim)
	}
	return p.run(0, obs, action)
}

// run computes at most p.rows rows, the first of which is number first of the
// caller's. Unused rows of the batch stay as they were: finite, and not read.
func (p *Policy) run(first int, obs, action []float32) error {
	if p.net == nil {
		return ErrClosed
	}
	for i, x := range obs {
		if x-x != 0 {
			return fmt.Errorf("session: observation, row %d, %s: %v is %w", first+i/p.obsDim, p.contract.Element(i%p.obsDim), x, ErrNonFinite)
		}
	}
	copy(p.net.in, obs)
	if err := p.net.session.Run(); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	copy(action, p.net.out)
	for i, x := range action {
		if x-x != 0 {
			return fmt.Errorf("session: action, row %d, joint %s: %v is %w", first+i/p.actDim, p.spec.Joints[i%p.actDim], x, ErrNonFinite)
		}
	}
	return nil
}

// Close frees the session. Calling it again is harmless.
func (p *Policy) Close() error {
	n := p.net
	p.net = nil
	if n == nil {
		return nil
	}
	return n.close()
}

// net is one ONNX Runtime session with its buffers.
type net struct {
	memory  []byte
	in, out []float32 // views of memory: (rows, observation) and (rows, action)
	values  []ort.Value
	session *ort.AdvancedSession
}

// newNet makes a session whose input and output are bound once, for good.
func newNet(file *contract.File, rows, obsDim, actDim int, options func(*ort.SessionOptions) error) (*net, error) {
	n := &net{}
	if err := n.open(file, rows, obsDim, actDim, options); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// open fills n; what it made before an error is in n, for close.
func (n *net) open(file *contract.File, rows, obsDim, actDim int, options func(*ort.SessionOptions) error) error {
	if err := n.allocate(rows*obsDim, rows*actDim); err != nil {
		return err
	}
	for _, t := range []struct {
		width int
		data  []float32
	}{{obsDim, n.in}, {actDim, n.out}} {
		v, err := ort.NewTensor(ort.NewShape(int64(rows), int64(t.width)), t.data)
		if err != nil {
			return err
		}
		n.values = append(n.values, v)
	}
	so, err := ort.NewSessionOptions()
	if err != nil {
		return err
	}
	defer so.Destroy()
	if err := options(so); err != nil {
		return err
	}
	if len(file.Model.External) > 0 { // a model in memory has no folder of its own
		dir, err := filepath.Abs(filepath.Dir(file.Path))
		if err != nil {
			return err
		}
		if err := so.AddSessionConfigEntry("session.model_external_initializers_file_folder_path", dir); err != nil {
			return err
		}
	}
	n.session, err = ort.NewAdvancedSessionWithONNXData(file.Bytes,
		[]string{file.Model.Inputs[0].Name}, []string{file.Model.Outputs[0].Name}, n.values[:1], n.values[1:], so)
	return err
}

// oneThread makes a session compute on its caller's thread alone and keep no
// arena. It leaves session.set_denormal_as_zero off: that changes the rounding
// mode of a thread which Go then uses for other work.
func oneThread(so *ort.SessionOptions) error {
	return errors.Join(
		so.SetIntraOpNumThreads(1),
		so.SetInterOpNumThreads(1),
		so.SetExecutionMode(ort.ExecutionModeSequential),
		so.SetCpuMemArena(false),
		so.SetMemPattern(false),
		so.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"),
		so.AddSessionConfigEntry("session.inter_op.allow_spinning", "0"),
	)
}

// close frees what newNet made, in the order that ONNX Runtime wants: session,
// then tensors, then the memory under them.
func (n *net) close() error {
	var errs []error
	if n.session != nil {
		errs = append(errs, n.session.Destroy())
	}
	for _, v := range n.values {
		errs = append(errs, v.Destroy())
	}
	errs = append(errs, n.release())
	*n = net{}
	return errors.Join(errs...)
}

func abs32(x float32) float32 { return max(x, -x) }
