//go:build torch

package nets

// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// VelocityDim is how many numbers the velocity has that an Encoder estimates.
const VelocityDim = 3

// Encoder reads an observation that is a history: Frames frames of equally many numbers, the
// newest last.
//
//	frames ─▶ Convs over time, ELU each ─┬▶ linear, ELU ─▶ latent ──┐
//	                                     └▶ linear ─▶ velocity ─────┼▶ the actor's layers
//	newest frame ───────────────────────────────────────────────────┘
//
// The velocity is learnt by its squared error to the true one, which the critic is shown
// (Loss.VelocityWeight; concurrent estimation, Ji et al. 2022, arXiv:2202.05481). To the actor
// it is an observation: what the actor's losses would like it to be does not move it, nor the
// convolutions by way of it. They move the latent and, through it, the convolutions.
type Encoder struct {
	Frames   int    `json:"frames"` // at least 2
	Convs    []Conv `json:"convs"`  // at least one
	Latent   int    `json:"latent"`
	Velocity int    `json:"velocity"` // where the true velocity's numbers begin in what the critic reads
}

// Conv is a convolution over time: Channels numbers at each position from Kernel positions of
// what it reads, Stride from one kernel to the next. The last kernel ends with the newest
// position; oldest ones that no whole kernel reads are left out.
type Conv struct {
	Channels int `json:"channels"`
	Kernel   int `json:"kernel"`
	Stride   int `json:"stride"`
}

// check names the first thing that cannot be. policy and critic are dimensions.
func (e *Encoder) check(policy, critic int) error {
	switch {
	case e.Frames < 2:
		return fmt.Errorf("nets: Encoder.Frames is %d, want at least 2", e.Frames)
	case policy%e.Frames != 0:
		return fmt.Errorf("nets: Encoder.Frames is %d, of which Policy (%d) is no multiple", e.Frames, policy)
	case len(e.Convs) == 0:
		return fmt.Errorf("nets: Encoder.Convs is empty, want at least one")
	case e.Latent < 1:
		return fmt.Errorf("nets: Encoder.Latent is %d, want at least 1", e.Latent)
	case e.Velocity < 0 || e.Velocity > critic-VelocityDim:
		return fmt.Errorf("nets: Encoder.Velocity is %d, want 0..%d: %d numbers of the critic's %d", e.Velocity, critic-VelocityDim, VelocityDim, critic)
	}
	length := e.Frames
	for i, c := range e.Convs {
		switch {
		case c.Channels < 1:
			return fmt.Errorf("nets: Encoder.Convs[%d].Channels is %d, want at least 1", i, c.Channels)
		case c.Stride < 1:
			return fmt.Errorf("nets: Encoder.Convs[%d].Stride is %d, want at least 1", i, c.Stride)
		case c.Kernel < 1 || c.Kernel > length:
			return fmt.Errorf("nets: Encoder.Convs[%d].Kernel is %d, want 1..%d, the positions that are left", i, c.Kernel, length)
		}
		length = (length-c.Kernel)/c.Stride + 1
	}
	return nil
}

// parameters counts weights and biases of an Encoder; nil has none.
func (e *Encoder) parameters() int {
	if e == nil {
		return 0
	}
	return 2 * (len(e.Convs) + 2)
}

// Parameters counts the weights and biases that New would make; its errors are New's.
func (c *Config) Parameters() (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	n := 0
	c.encoderLayers(func(_ string, out, in int) { n += out * (in + 1) })
	for _, w := range [][]int{widths(c.trunk(), c.ActorHidden, c.Act), widths(c.Critic, c.CriticHidden, 1)} {
		for i := 1; i < len(w); i++ {
			n += w[i] * (w[i-1] + 1)
		}
	}
	return n, nil
}

// trunk is how many numbers the actor's layers read.
func (c *Config) trunk() int {
	if c.Encoder == nil {
		return c.Policy
	}
	return c.frame() + c.Encoder.Latent + VelocityDim
}

// frame is how many numbers of the actor's observation are new in it: all without an Encoder.
func (c *Config) frame() int {
	if c.Encoder == nil {
		return c.Policy
	}
	return c.Policy / c.Encoder.Frames
}

// encoderLayers calls f for each layer of the encoder, in the order of their parameters.
func (c *Config) encoderLayers(f func(name string, out, in int)) {
	e := c.Encoder
	if e == nil {
		return
	}
	length, channels := e.Frames, c.frame()
	for i, v := range e.Convs {
		f(fmt.Sprint(i), v.Channels, v.Kernel*channels)
		length, channels = (length-v.Kernel)/v.Stride+1, v.Channels
	}
	f("latent", e.Latent, length*channels)
	f("velocity", VelocityDim, length*channels)
}

// forC is the encoder as C wants it; free frees what it points to.
func (c *Config) forC() (shape C.claw_encoder, free func()) {
	e := c.Encoder
	if e == nil {
		return shape, func() {}
	}
	convs := (*C.claw_conv)(C.calloc(C.size_t(len(e.Convs)), C.size_t(unsafe.Sizeof(C.claw_conv{}))))
	for i, v := range e.Convs {
		unsafe.Slice(convs, len(e.Convs))[i] = C.claw_conv{out: C.int(v.Channels), kernel: C.int(v.Kernel), stride: C.int(v.Stride)}
	}
	return C.claw_encoder{frame: C.int(c.frame()), frames: C.int(e.Frames), conv: convs, convs: C.int(len(e.Convs)),
		latent: C.int(e.Latent), velocity: C.int(e.Velocity)}, func() { C.free(unsafe.Pointer(convs)) }
}

// EncoderLayers are copies of the encoder's layers, of the convolutions in order; none without
// an Encoder. A convolution's In is Kernel times what it reads at a position, position after
// position, the newest last.
func (n *Nets) EncoderLayers() (convs []Layer, latent, velocity Layer) {
	e := n.config.Encoder
	if e == nil {
		return nil, Layer{}, Layer{}
	}
	all := n.layers(0, len(e.Convs)+2)
	k := len(e.Convs)
	return all[:k], all[k], all[k+1]
}

// Estimate writes the velocities (rows, VelocityDim) that the encoder estimates from policyObs
// (rows, Policy), fp16, in the units in which the critic is shown them.
func (n *Nets) Estimate(policyObs []uint16, rows int, velocity []float32) error {
	switch {
	case n.config.Encoder == nil:
		return fmt.Errorf("nets: Estimate: the networks were made without an Encoder")
	case rows < 0 || len(policyObs) < rows*n.config.Policy || len(velocity) < rows*VelocityDim:
		return fmt.Errorf("nets: Estimate: %d rows: %d numbers of observation and %d of result, want %d and %d",
			rows, len(policyObs), len(velocity), rows*n.config.Policy, rows*VelocityDim)
	case rows > 0:
		C.claw_estimate(n.core, C.int64_t(rows), halves(policyObs), floats(velocity))
	}
	return nil
}
