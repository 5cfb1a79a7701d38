package export

import (
	"fmt"

	"github.com/openclaw-rl/openclaw/onnx/internal/modelproto"
)

// Encoder reads a history: Frames frames of equally many numbers, the newest last. The
// network's first layer takes the newest frame, the latent and the velocity, in this order.
type Encoder struct {
	Frames   int
	Convs    []Conv // over time, ELU after each; at least one
	Latent   Layer  // ELU after it
	Velocity Layer  // the estimated one's three numbers
}

// Conv is a convolution over time: a Layer that takes Kernel positions, one after the other,
// the newest last, with Stride from one kernel to the next. The last kernel ends with the
// newest position; oldest ones that no whole kernel takes are left out.
type Conv struct {
	Layer
	Kernel, Stride int
}

// frame is how many numbers a frame has; Encoder.check has seen that it is so.
func (e *Encoder) frame() int { return e.Convs[0].In / e.Convs[0].Kernel }

// check refuses an encoder that does not read obs numbers, and gives how many the network's
// layers are shown.
func (e *Encoder) check(obs int) (width int, err error) {
	switch {
	case e.Frames < 2 || obs%e.Frames != 0:
		return 0, fmt.Errorf("export: encoder of %d frames, the observation has %d numbers", e.Frames, obs)
	case len(e.Convs) == 0:
		return 0, fmt.Errorf("export: the encoder has no convolutions")
	}
	length, channels, from := e.Frames, obs/e.Frames, "so many frames have"
	for i := range e.Convs {
		c, name := &e.Convs[i], fmt.Sprintf("encoder: convolution %d", i)
		if c.Kernel < 1 || c.Kernel > length || c.Stride < 1 {
			return 0, fmt.Errorf("export: %s: kernel %d, stride %d over %d positions", name, c.Kernel, c.Stride, length)
		}
		if err := c.check(name, c.Kernel*channels, from); err != nil {
			return 0, err
		}
		length, channels, from = (length-c.Kernel)/c.Stride+1, c.Out, fmt.Sprintf("so many positions of convolution %d have", i)
	}
	for _, head := range []struct {
		name string
		l    *Layer
	}{{"latent", &e.Latent}, {"velocity", &e.Velocity}} {
		if err := head.l.check("encoder: "+head.name, length*channels, "the convolutions give"); err != nil {
			return 0, err
		}
	}
	if e.Velocity.Out != 3 {
		return 0, fmt.Errorf("export: encoder: velocity gives %d numbers, want 3", e.Velocity.Out)
	}
	return obs/e.Frames + e.Latent.Out + e.Velocity.Out, nil
}

// nodes adds the encoder of the tensor obs to b and gives what the network's layers take.
//
// ONNX convolves channel after channel, we frame after frame: numbers are transposed once on
// the way in, weights here.
func (e *Encoder) nodes(b *builder, obs string) string {
	frame, length, channels := int64(e.frame()), e.Frames, e.frame()
	at := b.node("Reshape", "frames", obs, b.ints("frames_shape", 0, int64(e.Frames), frame)) // 0: as many rows as there are
	at = b.node("Transpose", "by_channel", at)
	b.last().Lists = []modelproto.ListAttribute{{Name: "perm", Values: []int64{0, 2, 1}}}
	for i := range e.Convs {
		c := &e.Convs[i]
		if skip := (length - c.Kernel) % c.Stride; skip > 0 {
			at = b.slice(fmt.Sprintf("positions_%d", i), at, 2, skip, length)
		}
		name := fmt.Sprintf("encoder.%d", 2*i)
		at = b.node("Conv", fmt.Sprintf("conv_%d", i), at,
			b.weight(name+".weight", transposed(c.Weight, c.Out, c.Kernel, channels), int64(c.Out), int64(channels), int64(c.Kernel)),
			b.weight(name+".bias", c.Bias, int64(c.Out)))
		b.last().Lists = []modelproto.ListAttribute{{Name: "kernel_shape", Values: []int64{int64(c.Kernel)}}, {Name: "strides", Values: []int64{int64(c.Stride)}}}
		at = b.node("Elu", fmt.Sprintf("conv_elu_%d", i), at)
		length, channels = (length-c.Kernel)/c.Stride+1, c.Out
	}
	features := b.node("Flatten", "features", at) // channel after channel
	head := func(l Layer, name, out string) string {
		l.Weight = transposed(l.Weight, l.Out, length, channels)
		return b.gemm("encoder."+name, out, features, &l)
	}
	latent := b.node("Elu", "latent", head(e.Latent, "latent", "latent_linear"))
	velocity := head(e.Velocity, "velocity", "velocity")
	newest := b.slice("newest", obs, 1, (e.Frames-1)*int(frame), e.Frames*int(frame))
	b.node("Concat", "encoded", newest, latent, velocity)
	b.last().Ints = []modelproto.IntAttribute{{Name: "axis", Value: 1}}
	return "encoded"
}

// slice adds the numbers from, below to of an axis.
func (b *builder) slice(out, in string, axis, from, to int) string {
	return b.node("Slice", out, in, b.ints(out+"_from", int64(from)), b.ints(out+"_to", int64(to)), b.ints(out+"_axis", int64(axis)))
}

// transposed turns w (out, positions, channels) into (out, channels, positions).
func transposed(w []float32, out, positions, channels int) []float32 {
	t := make([]float32, len(w))
	for o := range out {
		for p := range positions {
			for c := range channels {
				t[(o*channels+c)*positions+p] = w[(o*positions+p)*channels+c]
			}
		}
	}
	return t
}
