//go:build torch

package nets

import "fmt"

// Blend moves n's parameters towards those of other, networks of the same shape: each
// becomes keep of its own and 1 - keep of the other's. n takes over other's normaliser; its
// optimiser is left alone. A keep of 0 makes n's outputs other's bit for bit.
func (n *Nets) Blend(other *Nets, keep float32) error {
	if n.alike != other { // comparing allocates, and shapes stay
		if name, a, b := n.header().differs(other.header()); name != "" {
			return fmt.Errorf("nets: Blend: networks of different shapes: %s is %v and %v", name, a, b)
		}
		n.alike = other
	}
	if !(keep >= 0 && keep <= 1) {
		return fmt.Errorf("nets: Blend: keep is %v, want 0..1", keep)
	}
	for i, p := range n.params {
		from := other.params[i].value
		if keep == 0 {
			copy(p.value, from)
			continue
		}
		for k, x := range p.value {
			p.value[k] = keep*x + (1-keep)*from[k]
		}
	}
	for k := range n.running {
		m, from := &n.running[k], &other.running[k]
		m.count = from.count
		copy(m.mean, from.mean)
		copy(m.sum, from.sum)
	}
	n.ready = false
	n.normalise()
	return nil
}
