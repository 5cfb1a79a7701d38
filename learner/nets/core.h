// The hot path in C: what nets.go calls. Shapes as in nets.go; n is a count of samples, "whole" arrays are indexed by sample.
#ifndef OPENCLAW_NETS_CORE_H
#define OPENCLAW_NETS_CORE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct claw_core claw_core;

enum { CLAW_ACTOR, CLAW_CRITIC, CLAW_NETWORKS };  // index of a network; both mirror maps and normalisers go by it
enum { CLAW_NLL, CLAW_MSE, CLAW_KL };             // kinds of distillation

// One parameter: its memory, which the caller owns, and its place in the flat arrays of gradients and moments.
typedef struct {
  float *value;
  int64_t size, offset;
} claw_param;

// A convolution over time: out numbers at each position from kernel positions of its input, stride from one kernel to the next.
typedef struct {
  int out, kernel, stride;
} claw_conv;

// What reads an actor's observation that is a history: frames of frame numbers, the newest last. frames 0: there is none.
typedef struct {
  int frame, frames;
  const claw_conv *conv;
  int convs, latent;
  int velocity;  // where the 3 numbers that its head estimates begin in the critic's observation
} claw_encoder;

typedef struct {
  int workers, act;
  const int *width[CLAW_NETWORKS];  // layers + 1 numbers: input, hidden, output; the actor's input is what its encoder makes, if it has one
  int layers[CLAW_NETWORKS];
  claw_encoder encoder;
  const claw_param *param;  // weight, bias of encoder's convolutions, latent, velocity; actor's, log std, critic's
  int64_t flat;             // length of the flat arrays
  float *m, *v;             // Adam's moments (flat), the caller's
  float min_log_std, max_log_std;
} claw_config;

typedef struct {
  float clip, value_clip, value_weight, entropy_weight, distill_weight, velocity_weight, calm_weight;
  int distill;
  bool std_detached;
} claw_loss;

typedef struct {
  int64_t samples, students, labelled;
  // Means over the samples they speak of.
  double surrogate, value, entropy, kl, clip_fraction, max_ratio_error, distill, label_rmse, velocity, calm, loss;
  double actor_norm, critic_norm;  // of the gradient, before clipping; the actor's with log std
  bool finite;                     // loss, ratios and both squared norms, as floats
} claw_stats;

// NULL when there is no memory and no threads for it, or the processor lacks F16C (x86-64 of 2013 and later has it).
claw_core *claw_new(const claw_config *config);
void claw_free(claw_core *core);

// A mirrored vector is sign[i] * x[index[i]]; the arrays are copied.
void claw_mirror(claw_core *core, int network, const int32_t *index, const float *sign);
void claw_mirror_action(claw_core *core, const int32_t *index, const float *sign);
// What a network reads is (x - mean) / std from now on; mean NULL: x.
void claw_normalise(claw_core *core, int network, const float *mean, const float *std);

// out (n x the network's outputs) from fp16 observations (n x its inputs).
void claw_forward(claw_core *core, int network, int64_t n, const uint16_t *obs, float *out);
// out (n x 3): velocities that the encoder estimates from the actor's observations.
void claw_estimate(claw_core *core, int64_t n, const uint16_t *obs, float *out);

// Gradient of the loss over n drawn samples, kept in core; mirror may be NULL, and so may what the loss has no use for.
void claw_gradient(claw_core *core, const claw_loss *loss, int64_t n, const int32_t *index, const bool *mirror,
                   const uint16_t *policy_obs, const uint16_t *critic_obs, const uint16_t *action, const uint16_t *label,
                   const float *mean, const float *old_std, const float *label_std,
                   const float *old_log_prob, const float *advantage, const float *target, const float *old_value,
                   const bool *labelled, const bool *teacher, const int32_t *near, claw_stats *stats);
// The same for the mean squared error of the actor's mean to target (fp16, whole): stats' distill is it. With an encoder velocity_weight
// times the error of its estimates is added, and critic_obs is needed.
void claw_regress(claw_core *core, int64_t n, const int32_t *index, const bool *mirror, const uint16_t *policy_obs,
                  const uint16_t *critic_obs, const uint16_t *target, float velocity_weight, claw_stats *stats);

// One Adam step (betas 0.9, 0.999, epsilon 1e-8) by the kept gradient times scale, of the actor (moments' step count >= 1), log std
// and critic; a count of 0 leaves its group alone. Then log std is put into its range.
void claw_adam(claw_core *core, double learning_rate, float actor_scale, float critic_scale, const int64_t *count);

// The flat gradient, for tests.
const float *claw_flat_gradient(const claw_core *core);

#ifdef __cplusplus
}
#endif
#endif
