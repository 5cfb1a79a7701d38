//go:build torch

#include "kernels.h"

#include <immintrin.h>

#include <cmath>
#include <cstring>

#define MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default")))

namespace {

inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }

// e^x - 1 for x <= 0, to 1e-7 absolute: x = k ln 2 + r, e^r by its series to the 6th power, 2^k through the exponent bits.
inline __attribute__((always_inline)) float exp_minus_1(float x) {
  x = x < -80.0f ? -80.0f : x;
  const float round = 12582912.0f;  // 1.5 * 2^23: adding it leaves the whole part in the low bits
  float shifted = x * 1.44269504f + round;
  float k = shifted - round;
  float r = x - k * 0.693359375f;  // ln 2 in two parts, the first exact
  r = r + k * 2.12194440e-4f;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r;  // e^r - 1
  float scale = float_of((bits_of(shifted) + 127) << 23);
  return p * scale + (scale - 1.0f);
}

}  // namespace

__attribute__((target("avx,f16c"))) void half_to_float(float *dst, const uint16_t *src, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
  if (i == n) return;
  alignas(16) uint16_t rest[8] = {};
  alignas(32) float floats[8];
  std::memcpy(rest, src + i, (n - i) * sizeof(*src));
  _mm256_store_ps(floats, _mm256_cvtph_ps(_mm_load_si128((const __m128i *)rest)));
  std::memcpy(dst + i, floats, (n - i) * sizeof(*dst));
}

MULTIVERSION void standardise(float *x, const float *mean, const float *std, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = (x[i] - mean[i]) / std[i];
}

MULTIVERSION void bias_activate(float *y, const float *bias, size_t rows, size_t width, bool elu) {
  for (size_t r = 0; r < rows; r++, y += width) {
    if (elu) {
      for (size_t i = 0; i < width; i++) {
        float x = y[i] + bias[i];
        float e = exp_minus_1(x < 0.0f ? x : 0.0f);
        y[i] = x < 0.0f ? e : x;
      }
    } else {
      for (size_t i = 0; i < width; i++) y[i] += bias[i];
    }
  }
}

MULTIVERSION void elu_backward(float *d, const float *h, size_t rows, size_t width) {
  for (size_t i = 0; i < rows * width; i++) {
    float slope = h[i] < 0.0f ? h[i] + 1.0f : 1.0f;
    d[i] *= slope;
  }
}

MULTIVERSION void add_columns(float *sum, const float *d, size_t rows, size_t width) {
  for (size_t r = 0; r < rows; r++, d += width)
    for (size_t i = 0; i < width; i++) sum[i] += d[i];
}

MULTIVERSION void add(float *dst, const float *src, size_t n) {
  for (size_t i = 0; i < n; i++) dst[i] += src[i];
}

MULTIVERSION double sum_of_squares(const float *x, size_t n) {
  const size_t lanes = 16;  // sums side by side, so that the compiler need not reorder
  double sum[lanes] = {};
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (size_t k = 0; k < lanes; k++) sum[k] += double(x[i + k]) * double(x[i + k]);
  for (; i < n; i++) sum[0] += double(x[i]) * double(x[i]);
  double total = 0;
  for (size_t k = 0; k < lanes; k++) total += sum[k];
  return total;
}

MULTIVERSION void adam(float *p, const float *g, float *m, float *v, size_t n, float scale, float step, float root) {
  for (size_t i = 0; i < n; i++) {
    float gradient = g[i] * scale;
    m[i] = 0.9f * m[i] + 0.1f * gradient;
    v[i] = 0.999f * v[i] + 0.001f * (gradient * gradient);
    p[i] -= step * (m[i] / (__builtin_sqrtf(v[i]) * root + 1e-8f));
  }
}
