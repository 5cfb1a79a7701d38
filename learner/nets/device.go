//go:build torch

package nets

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "device.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Available says what this machine lacks to learn on the device: nil for nothing. Of a GPU that is a driver, the CUDA half of libtorch
// (libtorch_cuda.so with what it loads, which make deps-torch leaves out: it is looked for where libtorch lies and in LD_LIBRARY_PATH)
// or the GPU itself. The first call for a GPU is to come before any other of this package: libtorch looks for its half once.
func Available(device string) error {
	if err := CheckDevice(device); err != nil {
		return fmt.Errorf("nets: %w", err)
	}
	name := C.CString(libtorchs(device))
	defer C.free(unsafe.Pointer(name))
	return thrown(device, C.claw_device_lacks(name))
}

// libtorchs is a device as libtorch calls it.
func libtorchs(device string) string {
	switch device {
	case "", CPUATen:
		return CPU
	case CUDA:
		return CUDA + ":0"
	}
	return device
}

// thrown is the error that C's sentence tells of; nil of none.
func thrown(device string, sentence *C.char) error {
	if sentence == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(sentence))
	return fmt.Errorf("nets: device %s: %s", device, C.GoString(sentence))
}

// startDevice makes the part that computes on config's device, if it is not the CPU's own.
func (n *Nets) startDevice(config *C.claw_config) error {
	c := &n.config
	if c.Device == "" || c.Device == CPU {
		return nil
	}
	name := C.CString(libtorchs(c.Device))
	defer C.free(unsafe.Pointer(name))
	err := thrown(c.Device, C.claw_device_new(config, name, &n.device))
	if err != nil || !c.mirrors() {
		return err
	}
	return errors.Join(
		thrown(c.Device, C.claw_device_mirror(n.device, actor, indices(c.MirrorPolicy.Index), floats(c.MirrorPolicy.Sign))),
		thrown(c.Device, C.claw_device_mirror(n.device, critic, indices(c.MirrorCritic.Index), floats(c.MirrorCritic.Sign))),
		thrown(c.Device, C.claw_device_mirror_action(n.device, indices(c.MirrorAction.Index), floats(c.MirrorAction.Sign))))
}

// Update has learn take minibatches of b's samples, all of them of the same arrays: Config.Device gets parameters, Adam's moments and
// those arrays once, before learn, and gives the first two back after it. Until then n is for Gradient, Apply, Minibatch, Regress and
// the learning rate alone. Where the CPU learns nothing has to move, and Update just calls learn.
func (n *Nets) Update(b *Batch, learn func() error) error {
	if n.device == nil {
		return learn()
	}
	if err := n.take(b); err != nil {
		return err
	}
	err := learn()
	n.ready, n.away, n.taken = false, false, Batch{}
	return errors.Join(err, thrown(n.config.Device, C.claw_device_bring(n.device)))
}

// take takes everything to the device.
func (n *Nets) take(b *Batch) error {
	c := &n.config
	samples := len(b.PolicyObs) / c.Policy
	for _, array := range [...]struct {
		name     string
		got, dim int
	}{
		{"PolicyObs", len(b.PolicyObs), c.Policy}, {"CriticObs", len(b.CriticObs), c.Critic}, {"Action", len(b.Action), c.Act},
		{"Label", len(b.Label), c.Act}, {"Mean", len(b.Mean), c.Act}, {"OldLogProb", len(b.OldLogProb), 1},
		{"Advantage", len(b.Advantage), 1}, {"Target", len(b.Target), 1}, {"OldValue", len(b.OldValue), 1},
		{"Labelled", len(b.Labelled), 1}, {"Teacher", len(b.Teacher), 1}, {"Near", len(b.Near), 1},
	} {
		if array.got != 0 && array.got != samples*array.dim {
			return fmt.Errorf("nets: Update: %s has %d numbers, want %d for %d samples", array.name, array.got, samples*array.dim, samples)
		}
	}
	for k := range n.running {
		var mean, std []float32
		if c.Normaliser && n.running[k].count > 0 {
			mean, std = n.running[k].stats()
		}
		if err := thrown(c.Device, C.claw_device_normalise(n.device, C.int(k), floats(mean), floats(std))); err != nil {
			return err
		}
	}
	err := thrown(c.Device, C.claw_device_take(n.device, C.int64_t(samples), halves(b.PolicyObs), halves(b.CriticObs), halves(b.Action), halves(b.Label),
		floats(b.Mean), floats(b.OldLogProb), floats(b.Advantage), floats(b.Target), floats(b.OldValue), bools(b.Labelled), bools(b.Teacher),
		indices(b.Near)))
	n.away, n.taken = err == nil, *b
	return err
}

// has refuses samples that the device has not.
func (n *Nets) has(b *Batch) error {
	t := &n.taken
	if n.away && same(b.PolicyObs, t.PolicyObs) && same(b.CriticObs, t.CriticObs) && same(b.Action, t.Action) && same(b.Label, t.Label) &&
		same(b.Mean, t.Mean) && same(b.OldLogProb, t.OldLogProb) && same(b.Advantage, t.Advantage) && same(b.Target, t.Target) &&
		same(b.OldValue, t.OldValue) && same(b.Labelled, t.Labelled) && same(b.Teacher, t.Teacher) && same(b.Near, t.Near) {
		return nil
	}
	return fmt.Errorf("nets: device %s was not given these samples: take minibatches in Update", n.config.Device)
}

// same says whether two slices are the same memory.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// gradientThere fills n.stats by the device.
func (n *Nets) gradientThere(b *Batch) error {
	if err := n.has(b); err != nil {
		return err
	}
	students, labelled := 0, 0
	for _, i := range b.Index {
		if b.Teacher == nil || !b.Teacher[i] {
			students++
		}
		if b.Labelled != nil && b.Labelled[i] {
			labelled++
		}
	}
	return thrown(n.config.Device, C.claw_device_gradient(n.device, &n.loss, C.int64_t(len(b.Index)), indices(b.Index), bools(b.Mirror),
		floats(b.OldStd), floats(b.LabelStd), C.int64_t(students), C.int64_t(labelled), &n.stats))
}

// regressThere is gradientThere for Regress.
func (n *Nets) regressThere(b *Batch, velocityWeight float32) error {
	if err := n.has(b); err != nil {
		return err
	}
	return thrown(n.config.Device, C.claw_device_regress(n.device, C.int64_t(len(b.Index)), indices(b.Index), bools(b.Mirror),
		C.float(velocityWeight), &n.stats))
}

// adamThere takes Adam's step on the device, for n.count.
func (n *Nets) adamThere(actorScale, criticScale float64) error {
	return thrown(n.config.Device, C.claw_device_adam(n.device, C.double(n.rate), C.float(actorScale), C.float(criticScale), &n.count[0]))
}

// flatGradientThere is flatGradient's on the device.
func (n *Nets) flatGradientThere() []float32 {
	g := make([]float32, len(n.first))
	if err := thrown(n.config.Device, C.claw_device_flat_gradient(n.device, floats(g))); err != nil {
		panic(err)
	}
	return g
}
