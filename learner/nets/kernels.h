// Loops over floats that the compiler turns into vector instructions, one copy for each level of x86-64, chosen at load.
#ifndef OPENCLAW_NETS_KERNELS_H
#define OPENCLAW_NETS_KERNELS_H

#include <cstddef>
#include <cstdint>

// dst = fp16 src as floats.
void half_to_float(float *dst, const uint16_t *src, size_t n);
// x = (x - mean) / std, one row.
void standardise(float *x, const float *mean, const float *std, size_t n);
// y (rows x width) += bias; y = ELU(y) if elu.
void bias_activate(float *y, const float *bias, size_t rows, size_t width, bool elu);
// d (rows x width) *= ELU'(.) as told by ELU's value h.
void elu_backward(float *d, const float *h, size_t rows, size_t width);
// sum (width) += columns of d (rows x width).
void add_columns(float *sum, const float *d, size_t rows, size_t width);
// dst += src.
void add(float *dst, const float *src, size_t n);
// Sum of squares, in double.
double sum_of_squares(const float *x, size_t n);
// Adam on one array. step = learning rate / (1 - beta1^t), root = 1 / sqrt(1 - beta2^t).
void adam(float *p, const float *g, float *m, float *v, size_t n, float scale, float step, float root);

#endif
