// What core.h does for an update, by libtorch's tensor operations on a device: what device.go calls. Every function that can fail gives
// NULL or a sentence that the caller frees.
#ifndef OPENCLAW_NETS_DEVICE_H
#define OPENCLAW_NETS_DEVICE_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct claw_device claw_device;

// What this machine lacks to compute there; device is cpu or cuda:N. The CUDA half of libtorch is loaded by the first call for a GPU,
// which must come before libtorch looks for one or goes through a graph backward.
char *claw_device_lacks(const char *device);

// device as above. of says what networks there are: *made is for the same parameters and moments, which stay the caller's.
char *claw_device_new(const claw_config *of, const char *device, claw_device **made);
void claw_device_free(claw_device *d);

// As claw_mirror, claw_mirror_action and claw_normalise.
char *claw_device_mirror(claw_device *d, int network, const int32_t *index, const float *sign);
char *claw_device_mirror_action(claw_device *d, const int32_t *index, const float *sign);
char *claw_device_normalise(claw_device *d, int network, const float *mean, const float *std);

// Takes parameters, moments and whole arrays of samples to the device; NULL of what is not there.
char *claw_device_take(claw_device *d, int64_t samples, const uint16_t *policy_obs, const uint16_t *critic_obs, const uint16_t *action,
                       const uint16_t *label, const float *mean, const float *old_log_prob, const float *advantage, const float *target,
                       const float *old_value, const bool *labelled, const bool *teacher, const int32_t *near);
// Brings parameters and moments back and forgets the samples.
char *claw_device_bring(claw_device *d);

// As claw_gradient, claw_regress and claw_adam, of samples that were taken.
char *claw_device_gradient(claw_device *d, const claw_loss *loss, int64_t n, const int32_t *index, const bool *mirror, const float *old_std,
                           const float *label_std, int64_t students, int64_t labelled, claw_stats *stats);
char *claw_device_regress(claw_device *d, int64_t n, const int32_t *index, const bool *mirror, float velocity_weight, claw_stats *stats);
char *claw_device_adam(claw_device *d, double learning_rate, float actor_scale, float critic_scale, const int64_t *count);

// Copies the flat gradient, for tests.
char *claw_device_flat_gradient(const claw_device *d, float *gradient);

#ifdef __cplusplus
}
#endif
#endif
