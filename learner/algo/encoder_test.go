package algo

import (
	"strings"
	"testing"
)

func TestEncoderConfig(t *testing.T) {
	c := Default()
	if c.Net.History() != 1 {
		t.Errorf("without an encoder the actor reads %d frames", c.Net.History())
	}
	c.Net.Encoder = encoderConv
	for c.Net.Frames = 10; c.Net.Frames <= 25; c.Net.Frames++ { // the default kernels suit all of them
		if err := c.Validate(); err != nil || c.Net.History() != c.Net.Frames {
			t.Errorf("%d frames: %v, history %d", c.Net.Frames, err, c.Net.History())
		}
	}
	for says, spoil := range map[string]func(*Net){
		`net.encoder is "gru", want none or conv`:                         func(n *Net) { n.Encoder = "gru" },
		`net.encoder is conv, but net.group is "critic"`:                  func(n *Net) { n.Group = "critic" },
		"net.frames is 9, want 10..25":                                    func(n *Net) { n.Frames = 9 },
		"net.frames is 26, want 10..25":                                   func(n *Net) { n.Frames = 26 },
		"net.channels is empty":                                           func(n *Net) { n.Channels, n.Kernels, n.Strides = nil, nil, nil },
		"net.channels has a layer of 0":                                   func(n *Net) { n.Channels = []int{8, 0} },
		"have 2, 1 and 2 numbers, want one of each":                       func(n *Net) { n.Kernels = []int{3} },
		"have 2, 2 and 3 numbers, want one of each":                       func(n *Net) { n.Strides = []int{1, 1, 1} },
		"net.kernels has 7 for convolution 2, want 1..6":                  func(n *Net) { n.Kernels = []int{5, 7} },
		"net.kernels has 0 for convolution 1, want 1..15: so many positi": func(n *Net) { n.Kernels = []int{0, 1} },
		"net.strides has 0 for convolution 2, want at least 1":            func(n *Net) { n.Strides = []int{2, 0} },
		"net.latent has a layer of 0, want 1..65536":                      func(n *Net) { n.Latent = 0 },
		"net.velocity_weight is -1, want 0..1e6":                          func(n *Net) { n.VelocityWeight = -1 },
	} {
		c := Default()
		c.Net.Encoder = encoderConv
		spoil(&c.Net)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}
