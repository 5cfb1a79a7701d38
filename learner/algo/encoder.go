package algo

import (
	"errors"
	"fmt"
)

// Encoders by name.
const (
	encoderNone = "none"
	encoderConv = "conv"
)

// defaultEncoder fills in what an encoder is like, for those who ask for one.
func defaultEncoder(n *Net) {
	n.Encoder, n.Frames, n.Latent, n.VelocityWeight = encoderNone, 15, 16, 1
	n.Channels, n.Kernels, n.Strides = []int{32, 32}, []int{5, 3}, []int{2, 2}
}

// History is how many frames the group that the actor reads is to show.
func (n *Net) History() int {
	if n.Encoder == encoderNone {
		return 1
	}
	return n.Frames
}

// validateEncoder names the first field that cannot be.
func (n *Net) validateEncoder() error {
	switch {
	case n.Encoder != encoderNone && n.Encoder != encoderConv:
		return fmt.Errorf("net.encoder is %q, want %s or %s", n.Encoder, encoderNone, encoderConv)
	case n.Encoder == encoderConv && n.Group != "policy":
		return fmt.Errorf("net.encoder is %s, but net.group is %q: only the group policy shows a history", n.Encoder, n.Group)
	case n.Frames < 10 || n.Frames > 25:
		return fmt.Errorf("net.frames is %d, want 10..25", n.Frames)
	case !(n.VelocityWeight >= 0 && n.VelocityWeight <= 1e6):
		return fmt.Errorf("net.velocity_weight is %v, want 0..1e6", n.VelocityWeight)
	case len(n.Kernels) != len(n.Channels) || len(n.Strides) != len(n.Channels):
		return fmt.Errorf("net.channels, net.kernels and net.strides have %d, %d and %d numbers, want one of each for a convolution",
			len(n.Channels), len(n.Kernels), len(n.Strides))
	}
	if err := errors.Join(checkWidths("net.channels", n.Channels), checkWidths("net.latent", []int{n.Latent})); err != nil {
		return err
	}
	positions := n.Frames
	for i, kernel := range n.Kernels {
		if kernel < 1 || kernel > positions {
			return fmt.Errorf("net.kernels has %d for convolution %d, want 1..%d: so many positions are there", kernel, i+1, positions)
		}
		if n.Strides[i] < 1 {
			return fmt.Errorf("net.strides has %d for convolution %d, want at least 1", n.Strides[i], i+1)
		}
		positions = (positions-kernel)/n.Strides[i] + 1
	}
	return nil
}
