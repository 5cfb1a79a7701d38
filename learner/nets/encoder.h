// The encoder of a history: convolutions over time, then a latent and an estimated velocity, which the trunk reads beside the newest frame.
#ifndef OPENCLAW_NETS_ENCODER_H
#define OPENCLAW_NETS_ENCODER_H

#include <cstdint>
#include <vector>

#include "core.h"
#include "layer.h"

// Numbers of a velocity.
const int kVelocity = 3;

// A convolution over time. Its input (length x channels) and its output (positions x layer.out) lie position by position, so that what a
// kernel reads is one piece of memory. The last kernel ends with the newest: the oldest skip positions are read by none.
struct Conv {
  Layer layer;  // in = kernel x channels
  int channels, length, stride, positions, skip;
};

struct Encoder {
  // params: weight and bias of each convolution, of the latent's layer, of the velocity's. shape.frames 0: there is no encoder.
  Encoder(const claw_encoder &shape, const claw_param *params);
  int parameters() const { return int(2 * (convs.size() + 2)); }
  int64_t flops() const;  // of one observation forward

  int frame, frames;  // numbers of a frame, frames of an observation
  std::vector<Conv> convs;
  Layer latent, velocity;
  int label;  // where the true velocity begins in the critic's observation
};

// An encoder's activations and gradients for a chunk of observations.
struct Encoded {
  Encoded(const Encoder &e, int64_t chunk);

  std::vector<Floats> seen, h;  // of each convolution: what its kernels read, one after the other; its output
  Floats latent, velocity;      // (chunk x latent), (chunk x 3)
  Floats trunk;                 // newest frame, latent, velocity (chunk x their sum)
  Floats d_velocity;            // the loss's gradient by velocity, for whoever weighs it
  Floats d_latent, d, other;
};

// Fills s from the n observations in x and returns s.trunk.
const float *encode(const Encoder &e, const float *x, const Encoded &s, int n);

// Adds to gradient what the trunk's first layer, with d by its output (n x out), and s.d_velocity make of the encoder. The trunk's d goes
// into the latent alone: an estimate is judged by the velocity, not by what the trunk would like it to be.
void encode_backward(const Encoder &e, const Layer &first, const float *d, const Encoded &s, int n, float *gradient);

#endif
