//go:build torch

#include "encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

Encoder::Encoder(const claw_encoder &shape, const claw_param *p) : frame(shape.frame), frames(shape.frames), label(shape.velocity) {
  if (frames == 0) return;
  auto layer = [&p](int in, int out) {
    Layer l = {in, out, p[0].value, p[1].value, p[0].offset, p[1].offset};
    p += 2;
    return l;
  };
  int length = frames, channels = frame;
  for (int i = 0; i < shape.convs; i++) {
    const claw_conv &c = shape.conv[i];
    int positions = (length - c.kernel) / c.stride + 1, skip = (length - c.kernel) % c.stride;
    convs.push_back({layer(c.kernel * channels, c.out), channels, length, c.stride, positions, skip});
    length = positions;
    channels = c.out;
  }
  latent = layer(length * channels, shape.latent);
  velocity = layer(length * channels, kVelocity);
}

int64_t Encoder::flops() const {
  if (frames == 0) return 0;
  int64_t n = 2 * int64_t(latent.in) * (latent.out + velocity.out);
  for (const Conv &c : convs) n += 2 * int64_t(c.positions) * c.layer.in * c.layer.out;
  return n;
}

Encoded::Encoded(const Encoder &e, int64_t chunk) {
  if (e.frames == 0) return;
  int out = 0, in = 0;  // widest of an observation
  for (const Conv &c : e.convs) {
    seen.emplace_back(chunk * c.positions * c.layer.in);
    h.emplace_back(chunk * c.positions * c.layer.out);
    out = std::max({out, c.positions * c.layer.out});
    in = std::max(in, c.positions * c.layer.in);
  }
  latent = Floats(chunk * e.latent.out);
  velocity = Floats(chunk * kVelocity);
  trunk = Floats(chunk * (e.frame + e.latent.out + kVelocity));
  d_velocity = Floats(chunk * kVelocity);
  d_latent = Floats(chunk * e.latent.out);
  d = Floats(chunk * out);
  other = Floats(chunk * in);
}

namespace {

// seen (n x positions x in): what each kernel reads of x (n x length x channels).
void unfold(const Conv &c, const float *x, float *seen, int n) {
  const size_t piece = c.layer.in, step = size_t(c.stride) * c.channels;
  for (int r = 0; r < n; r++, x += size_t(c.length) * c.channels) {
    const float *from = x + size_t(c.skip) * c.channels;
    for (int p = 0; p < c.positions; p++, from += step, seen += piece) std::memcpy(seen, from, piece * sizeof(float));
  }
}

// dx (n x length x channels): each number's sum over the kernels that read it.
void fold(const Conv &c, const float *d_seen, float *dx, int n) {
  const size_t piece = c.layer.in, step = size_t(c.stride) * c.channels, all = size_t(c.length) * c.channels;
  std::memset(dx, 0, n * all * sizeof(float));
  for (int r = 0; r < n; r++, dx += all) {
    float *to = dx + size_t(c.skip) * c.channels;
    for (int p = 0; p < c.positions; p++, to += step, d_seen += piece) add(to, d_seen, piece);
  }
}

}  // namespace

const float *encode(const Encoder &e, const float *x, const Encoded &s, int n) {
  const float *at = x;
  for (size_t i = 0; i < e.convs.size(); i++) {
    const Conv &c = e.convs[i];
    unfold(c, at, s.seen[i], n);
    multiply(c.layer, s.seen[i], s.h[i], n * c.positions);
    bias_activate(s.h[i], c.layer.bias, size_t(n) * c.positions, c.layer.out, true);
    at = s.h[i];
  }
  multiply(e.latent, at, s.latent, n);
  bias_activate(s.latent, e.latent.bias, n, e.latent.out, true);
  multiply(e.velocity, at, s.velocity, n);
  bias_activate(s.velocity, e.velocity.bias, n, kVelocity, false);
  const float *newest = x + size_t(e.frames - 1) * e.frame;
  float *row = s.trunk;
  auto append = [&row](const float *from, size_t count) {
    std::memcpy(row, from, count * sizeof(float));
    row += count;
  };
  for (int r = 0; r < n; r++, newest += size_t(e.frames) * e.frame) {
    append(newest, e.frame);
    append(s.latent + size_t(r) * e.latent.out, e.latent.out);
    append(s.velocity + size_t(r) * kVelocity, kVelocity);
  }
  return s.trunk;
}

void encode_backward(const Encoder &e, const Layer &first, const float *by_first, const Encoded &s, int n, float *gradient) {
  const float *features = s.h.back();
  by_input(first, by_first, s.d_latent, n, e.frame, e.latent.out, 0);
  elu_backward(s.d_latent, s.latent, n, e.latent.out);
  by_parameters(e.latent, features, s.d_latent, n, gradient);
  by_parameters(e.velocity, features, s.d_velocity, n, gradient);
  by_input(e.latent, s.d_latent, s.d, n, 0, e.latent.in, 0);
  by_input(e.velocity, s.d_velocity, s.d, n, 0, e.velocity.in, 1);
  for (size_t i = e.convs.size(); i-- > 0;) {
    const Conv &c = e.convs[i];
    int rows = n * c.positions;
    elu_backward(s.d, s.h[i], rows, c.layer.out);
    by_parameters(c.layer, s.seen[i], s.d, rows, gradient);
    if (i > 0) {
      by_input(c.layer, s.d, s.other, rows, 0, c.layer.in, 0);
      fold(c, s.other, s.d, n);
    }
  }
}
