// Package nets holds the networks a policy is trained with: actor, critic,
// the state-free spread of the actions, the running normaliser and Adam.
//
//	observations (fp16) --Forward--> means, --Values--> values        [rollout]
//	samples + indices --Gradient--> loss, its gradient --Apply--> new parameters   [update: within Update]
//
// gotch holds parameters and Adam's moments in a VarStore; what is done with
// them for every sample is C++ of our own (core.cpp) over the same libtorch's
// matrix products, for gotch makes 100 kB of garbage and leaks some bytes in
// each tensor operation, and its backward pass leaves a quarter of the
// machine unused.
//
// An actor of one frame reads it itself; one of a history through an Encoder
// (encoder.cpp): convolutions over time, as copies of what each kernel reads times a
// matrix, a latent, and a head that estimates the body's velocity and learns it from
// what the critic is shown.
//
// # Devices
//
// Config.Device has the update done elsewhere: on a GPU, by libtorch's tensor operations and
// autograd (device.cpp). Update takes parameters, Adam's moments and the samples there, each
// minibatch is drawn there, and Update brings the first two back. It is the same loss with all it
// can weigh, mirrors, encoder and Stats, and ends in the same parameters but for rounding: cpu:aten
// does it on the CPU, which tests hold against core.cpp. What collects, saves or exports knows the
// parameters of this machine only.
//
// # Building
//
// All of it but this file, LogProb and CheckDevice sits behind build tag torch
// and is for x86-64, as its libtorch is:
//
//	make deps-torch && source .deps/env && go build -tags torch ./learner/...
//
// learner/algo calls it. Methods of one Nets are for one goroutine at a time,
// best one that is locked to its thread: libtorch and MKL keep memory for
// every thread that calls them.
package nets
