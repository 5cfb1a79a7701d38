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
	"reflect"
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

	Encoder *Encoder `json:"encoder,omitempty"`

	AdamSteps    [3]int64 `json:"adam_steps"` // actor, log std, critic
	LearningRate uint64   `json:"learning_rate_bits"`
}

func (n *Nets) header() stateHeader {
	c := &n.config
	return stateHeader{Policy: c.Policy, Critic: c.Critic, Act: c.Act, ActorHidden: c.ActorHidden, CriticHidden: c.CriticHidden,
		Normaliser: c.Normaliser, Encoder: c.Encoder, AdamSteps: n.steps, LearningRate: math.Float64bits(n.rate)}
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
	if name, got, want := got.differs(n.header()); name != "" {
		return fmt.Errorf("nets: Load: %s of the state is %v, of these networks %v", name, got, want)
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
		m := &n.running[k]
		m.count, m.mean, m.sum = newDouble[3*k][0], newDouble[3*k+1], newDouble[3*k+2]
	}
	n.steps, n.rate, n.ready = got.AdamSteps, math.Float64frombits(got.LearningRate), false
	n.normalise()
	return nil
}

// differs is the first thing in which two networks' shapes differ, with both; "": nothing.
func (h stateHeader) differs(other stateHeader) (name string, its, others any) {
	for _, field := range []struct {
		name        string
		its, others any
	}{
		{"Policy", h.Policy, other.Policy},
		{"Critic", h.Critic, other.Critic},
		{"Act", h.Act, other.Act},
		{"ActorHidden", h.ActorHidden, other.ActorHidden},
		{"CriticHidden", h.CriticHidden, other.CriticHidden},
		{"Normaliser", h.Normaliser, other.Normaliser},
		{"Encoder", h.Encoder, other.Encoder},
	} {
		if !reflect.DeepEqual(field.its, field.others) {
			return field.name, field.its, field.others
		}
	}
	return "", nil, nil
}

// String is the encoder's shape; "none" of nil.
func (e *Encoder) String() string {
	if e == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *e)
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
