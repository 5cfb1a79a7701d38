// What networks are made of: floats, and a linear layer on libtorch's matrix products.
#ifndef OPENCLAW_NETS_LAYER_H
#define OPENCLAW_NETS_LAYER_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "kernels.h"

// Of MKL inside libtorch_cpu.so: Fortran's matrix product (columns first).
extern "C" void sgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k, const float *alpha,
                       const float *a, const int *lda, const float *b, const int *ldb, const float *beta, float *c, const int *ldc);

// Floats at a cache line's start, all 0: products of equal numbers are then equal bit for bit.
class Floats {
 public:
  explicit Floats(size_t n = 0) {
    if (n == 0) return;
    size_t bytes = (n * sizeof(float) + 63) / 64 * 64;
    data_.reset(static_cast<float *>(std::aligned_alloc(64, bytes)));
    if (!data_) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes);
  }
  operator float *() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float *data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
};

struct Layer {
  int in, out;
  const float *weight, *bias;          // (out x in), (out)
  int64_t weight_offset, bias_offset;  // in the flat gradient
};

// y (n x out) = x (n x in) weight^T.
inline void multiply(const Layer &l, const float *x, float *y, int n) {
  const float one = 1, zero = 0;
  sgemm_("T", "N", &l.out, &n, &l.in, &one, l.weight, &l.in, x, &l.in, &zero, y, &l.out);
}

// Adds to gradient what d (n x out), the loss's gradient by the layer's output, makes of its input x (n x in).
inline void by_parameters(const Layer &l, const float *x, const float *d, int n, float *gradient) {
  const float one = 1;
  sgemm_("N", "T", &l.in, &l.out, &n, &one, x, &l.in, d, &l.out, &one, gradient + l.weight_offset, &l.in);
  add_columns(gradient + l.bias_offset, d, n, l.out);
}

// dx (n x columns) = keep dx + d (n x out) weight, of the inputs from first on.
inline void by_input(const Layer &l, const float *d, float *dx, int n, int first, int columns, float keep) {
  const float one = 1;
  sgemm_("N", "N", &columns, &n, &l.out, &one, l.weight + first, &l.in, d, &l.out, &keep, dx, &columns);
}

#endif
