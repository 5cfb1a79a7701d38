//go:build torch

package nets

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// A saved state, numbers little-endian:
//
//	magic | length of header (uint32) | header (JSON) |
//	parameters, moments (float32) | normaliser (float64) | sha256 of all before
const stateMagic = "openclaw nets 1\n"

// maxHeader bounds what Load allocates before it has seen the hash.
const maxHeader = 1 << 16

// stateHeader is what the numbers after it mean.
type stateHeader struct {
	Policy       int   `json:"policy"`
	Critic       int   `json:"critic"`
	Act          int   `json:"act"`
	ActorHidden  []int `json:"actor_hidden"`
	CriticHidden []int `json:"critic_hidden"`
	Normaliser   bool  `json:"normaliser"`

	AdamSteps    [3]int64 `json:"adam_steps"` // actor, log std, critic
	LearningRate uint64   `json:"learning_rate_bits"`
}

func (n *Nets) header() stateHeader {
	c := &n.config
	return stateHeader{Policy: c.Policy, Critic: c.Critic, Act: c.Act, ActorHidden: c.ActorHidden, CriticHidden: c.CriticHidden,
		Normaliser: c.Normaliser, AdamSteps: n.steps, LearningRate: math.Float64bits(n.rate)}
}

// state is every array that Save writes, in order.
func (n *Nets) state() (single [][]float32, double [][]float64) {
	for _, p := range n.params {
		single = append(single, p.value)
	}
	single = append(single, n.first, n.second)
	for k := range n.running {
		double = append(double, []float64{n.running[k].count}, n.running[k].mean, n.running[k].sum)
	}
	return single, double
}

// Save writes parameters, Adam's state, learning rate and normaliser. Loaded
// into networks of the same shape, training goes on with the same bits.
func (n *Nets) Save(w io.Writer) error {
	header, err := json.Marshal(n.header())
	if err != nil {
		return fmt.Errorf("nets: Save: %w", err)
	}
	hash := sha256.New()
	out := io.MultiWriter(w, hash)
	parts := []any{[]byte(stateMagic), uint32(len(header)), header}
	single, double := n.state()
	for _, array := range single {
		parts = append(parts, array)
	}
	for _, array := range double {
		parts = append(parts, array)
	}
	for _, part := range parts {
		if err := binary.Write(out, binary.LittleEndian, part); err != nil {
			return fmt.Errorf("nets: Save: %w", err)
		}
	}
	if _, err := w.Write(hash.Sum(nil)); err != nil {
		return fmt.Errorf("nets: Save: %w", err)
	}
	return nil
}

// Load reads what Save wrote. Networks of another shape and damaged or
// shortened states are refused, and then nothing has changed.
func (n *Nets) Load(r io.Reader) error {
	hash := sha256.New()
	in := io.TeeReader(r, hash)
	read := func(what string, part any) error {
		if err := binary.Read(in, binary.LittleEndian, part); err != nil {
			return fmt.Errorf("nets: Load: %s: %w", what, err)
		}
		return nil
	}
	magic, length := make([]byte, len(stateMagic)), uint32(0)
	if err := read("magic", magic); err != nil {
		return err
	}
	if string(magic) != stateMagic {
		return fmt.Errorf("nets: Load: it begins with %q, want %q", magic, stateMagic)
	}
	if err := read("header", &length); err != nil {
		return err
	}
	if length > maxHeader {
		return fmt.Errorf("nets: Load: header of %d bytes, want %d at most", length, maxHeader)
	}
	text := make([]byte, length)
	if err := read("header", text); err != nil {
		return err
	}
	var got stateHeader
	if err := json.Unmarshal(text, &got); err != nil {
		return fmt.Errorf("nets: Load: header: %w", err)
	}
	if err := n.sameShape(got); err != nil {
		return err
	}
	single, double := n.state()
	newSingle, newDouble := make([][]float32, len(single)), make([][]float64, len(double))
	for i := range single {
		newSingle[i] = make([]float32, len(single[i]))
		if err := read("parameters", newSingle[i]); err != nil {
			return err
		}
	}
	for i := range double {
		newDouble[i] = make([]float64, len(double[i]))
		if err := read("normaliser", newDouble[i]); err != nil {
			return err
		}
	}
	want := hash.Sum(nil)
	sum := make([]byte, len(want))
	if _, err := io.ReadFull(r, sum); err != nil {
		return fmt.Errorf("nets: Load: sha256: %w", err)
	}
	if !bytes.Equal(sum, want) {
		return fmt.Errorf("nets: Load: sha256 is %x, want %x", sum, want)
	}
	for i := range single {
		copy(single[i], newSingle[i])
	}
	for k := range n.running {
		n.running[k] = moments{count: newDouble[3*k][0], mean: newDouble[3*k+1], sum: newDouble[3*k+2]}
	}
	n.steps, n.rate, n.ready = got.AdamSteps, math.Float64frombits(got.LearningRate), false
	n.normalise()
	return nil
}

// sameShape names the first difference between a state's networks and these.
func (n *Nets) sameShape(got stateHeader) error {
	want := n.header()
	for _, field := range []struct {
		name      string
		got, want any
		same      bool
	}{
		{"Policy", got.Policy, want.Policy, got.Policy == want.Policy},
		{"Critic", got.Critic, want.Critic, got.Critic == want.Critic},
		{"Act", got.Act, want.Act, got.Act == want.Act},
		{"ActorHidden", got.ActorHidden, want.ActorHidden, slices.Equal(got.ActorHidden, want.ActorHidden)},
		{"CriticHidden", got.CriticHidden, want.CriticHidden, slices.Equal(got.CriticHidden, want.CriticHidden)},
		{"Normaliser", got.Normaliser, want.Normaliser, got.Normaliser == want.Normaliser},
	} {
		if !field.same {
			return fmt.Errorf("nets: Load: %s of the state is %v, of these networks %v", field.name, field.got, field.want)
		}
	}
	return nil
}

// Hash is the sha256 of the parameters, log std included, as hex.
func (n *Nets) Hash() string {
	hash := sha256.New()
	for _, p := range n.params {
		for _, x := range p.value {
			var b [4]byte
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
			hash.Write(b[:])
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}
