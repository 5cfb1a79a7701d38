//go:build torch

// Forward, loss, backward and optimiser of actor and critic, on libtorch's matrix products and worker threads of our own.
//
//   index --split in order--> worker 0: chunk, chunk ...  --gradient 0--+
//                             worker 1: chunk, chunk ...  --gradient 1--+--added in order--> norm --> Adam
//
// Every buffer is made once. A worker goes through its part in chunks whose activations stay in its cache. What a worker does and the
// order of additions depend on the samples and the number of workers alone, so a run can be repeated bit for bit.

#include "core.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "encoder.h"
#include "kernels.h"
#include "layer.h"
#include "pool.h"

// MKL asks this of itself before it looks at what the processor can do, and on any other maker's takes kernels of an older kind: on
// a Zen 4 they reach 100 GFLOP/s a core where those for AVX-512 reach 112, and 50 where they reach 110 if a width is no multiple of
// 16, as 47 observations are not. The answer given here stands for the program's whole libtorch.
extern "C" int mkl_serv_intel_cpu_true() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

namespace {

const int64_t kChunk = 1024;              // samples: 2 MB of activations in the widest layer that is usual
const int64_t kHistoryChunk = 256;        // of an actor with an encoder: what its first kernels read is some kB a sample
const int64_t kThreadFlops = 4000000;     // a forward pass smaller than this is done before another thread wakes up
const double kLog2Pi = 1.8378770664093453;

struct Mirror {
  std::vector<int32_t> index;
  std::vector<float> sign;
};

struct Network {
  Network(const claw_encoder &shape, const claw_param *params) : encoder(shape, params) {}

  Encoder encoder;  // between the observation and the layers; without frames: none
  std::vector<Layer> layers;
  int in, out, widest;  // of the observation, of the last layer, of any layer
  Mirror mirror;
  std::vector<float> mean, std;  // empty: no normaliser
};

// Activations of one chunk.
struct Scratch {
  Scratch(const Network &net, int64_t chunk)
      : x(chunk * net.in), row(net.in), encoded(net.encoder, chunk), d(chunk * net.widest), other(chunk * net.widest) {
    for (const Layer &layer : net.layers) h.emplace_back(chunk * layer.out);
  }
  Floats x, row;          // input (chunk x in), one row before mirroring
  Encoded encoded;        // what an encoder makes of it
  std::vector<Floats> h;  // outputs of the layers (chunk x out)
  Floats d, other;        // gradients by a layer's output and by its input (chunk x widest)
};

// One worker's sums over its samples.
struct Sums {
  double surrogate = 0, value = 0, kl = 0, clipped = 0, max_ratio_error = 0, distill = 0, squares = 0, velocity = 0, calm = 0;
  std::vector<double> log_std;  // gradient

  void clear() {
    surrogate = value = kl = clipped = max_ratio_error = distill = squares = velocity = calm = 0;
    std::fill(log_std.begin(), log_std.end(), 0.0);
  }
};

struct Worker {
  Worker(const Network *net, int64_t chunk, int act, int64_t flat)
      : scratch{Scratch(net[CLAW_ACTOR], chunk), Scratch(net[CLAW_CRITIC], chunk)}, gradient(flat), action(act), label(act), row(act) {
    sums.log_std.resize(act);
  }
  Scratch scratch[CLAW_NETWORKS];
  Floats gradient;
  Floats action, label, row;  // of one sample
  Sums sums;
};

// What the layers read of the n rows in s.x.
const float *input(const Network &net, const Scratch &s) { return net.encoder.frames > 0 ? s.encoded.trunk : s.x; }

// Outputs of the last layer for the n rows in s.x.
float *forward(const Network &net, const Scratch &s, int n) {
  if (net.encoder.frames > 0) encode(net.encoder, s.x, s.encoded, n);
  const float *x = input(net, s);
  for (size_t i = 0; i < net.layers.size(); i++) {
    multiply(net.layers[i], x, s.h[i], n);
    bias_activate(s.h[i], net.layers[i].bias, n, net.layers[i].out, i + 1 < net.layers.size());
    x = s.h[i];
  }
  return s.h.back();
}

// Adds to gradient what the n rows' d in s.d, the loss's gradient by the last layer's output, makes of it.
void backward(const Network &net, const Scratch &s, int n, float *gradient) {
  float *d = s.d, *other = s.other;
  for (size_t i = net.layers.size(); i-- > 0;) {
    const Layer &l = net.layers[i];
    const float *x = i > 0 ? s.h[i - 1] : input(net, s);
    by_parameters(l, x, d, n, gradient);
    if (i > 0) {
      by_input(l, d, other, n, 0, l.in, 0);
      elu_backward(other, x, n, l.in);
      std::swap(d, other);
    }
  }
  if (net.encoder.frames > 0) encode_backward(net.encoder, net.layers.front(), d, s.encoded, n, gradient);
}

void reflect(float *dst, const float *src, const Mirror &m, int n) {
  for (int i = 0; i < n; i++) dst[i] = m.sign[i] * src[m.index[i]];
}

// One observation into row r of s.x.
void take(const Network &net, const Scratch &s, int r, const uint16_t *obs, bool mirrored) {
  float *x = s.x + int64_t(r) * net.in;
  if (mirrored) {
    half_to_float(s.row, obs, net.in);
    reflect(x, s.row, net.mirror, net.in);
  } else {
    half_to_float(x, obs, net.in);
  }
  if (!net.mean.empty()) standardise(x, net.mean.data(), net.std.data(), net.in);
}

// Part w of n things that are split in order over the workers.
int64_t part(int64_t n, int w, int workers) { return n * w / workers; }

}  // namespace

struct claw_core {
  explicit claw_core(const claw_config &c)
      : act(c.act),
        flat(c.flat),
        chunk(c.encoder.frames > 0 ? kHistoryChunk : kChunk),
        m(c.m),
        v(c.v),
        min_log_std(c.min_log_std),
        max_log_std(c.max_log_std),
        network{Network(c.encoder, c.param), Network(claw_encoder(), nullptr)},
        pool(c.workers) {
    const claw_param *p = c.param;
    for (int k = 0; k < CLAW_NETWORKS; k++) {
      Network &net = network[k];
      group[k].begin = p->offset;
      if (net.encoder.frames > 0) {
        params[k].assign(p, p + net.encoder.parameters());
        p += net.encoder.parameters();
      }
      for (int i = 0; i < c.layers[k]; i++, p += 2) {
        net.layers.push_back({c.width[k][i], c.width[k][i + 1], p[0].value, p[1].value, p[0].offset, p[1].offset});
        params[k].insert(params[k].end(), {p[0], p[1]});
      }
      net.in = net.encoder.frames > 0 ? net.encoder.frames * net.encoder.frame : net.layers.front().in;
      net.out = net.layers.back().out;
      net.widest = 0;
      for (const Layer &l : net.layers) net.widest = std::max({net.widest, l.in, l.out});
      if (k == CLAW_ACTOR) log_std = *p++;
      group[k].end = k == CLAW_ACTOR ? p->offset : flat;
    }
    for (int w = 0; w < c.workers; w++) workers.emplace_back(network, chunk, act, flat);
    norms.resize(2 * c.workers);
    for (auto *spread : {&sigma, &old_sigma, &log_sigma, &log_old_sigma}) spread->resize(act);
  }

  struct Range {
    int64_t begin, end;
  };

  int act;
  int64_t flat, chunk;
  float *m, *v;
  float min_log_std, max_log_std;
  Network network[CLAW_NETWORKS];
  std::vector<claw_param> params[CLAW_NETWORKS];
  claw_param log_std;
  Range group[CLAW_NETWORKS];  // of the flat gradient; log std lies in the actor's
  Mirror action_mirror;
  std::vector<Worker> workers;
  std::vector<double> norms;             // squares: actor's of each worker, critic's of each worker
  std::vector<double> sigma, old_sigma;  // std now and of the rollout
  std::vector<double> log_sigma, log_old_sigma;
  Pool pool;

  // Calls f(worker, first, count) for the chunks of n samples, on the workers.
  template <typename F>
  void chunks(int64_t n, F f) {
    pool.run([&](int w) {
      Worker &worker = workers[w];
      std::memset(worker.gradient, 0, flat * sizeof(float));
      worker.sums.clear();
      int64_t begin = part(n, w, pool.workers()), length = part(n, w + 1, pool.workers()) - begin;
      int count = int((length + chunk - 1) / chunk);
      for (int i = 0; i < count; i++) {
        int64_t first = part(length, i, count);
        f(worker, begin + first, int(part(length, i + 1, count) - first));
      }
    });
  }

  // Adds the workers' gradients up in worker 0's and takes the norms.
  void gather(claw_stats *stats) {
    for (size_t w = 0; w < workers.size(); w++)
      for (int j = 0; j < act; j++) workers[w].gradient[log_std.offset + j] = float(workers[w].sums.log_std[j]);
    int count = pool.workers();
    pool.run([&](int w) {
      for (int k = 0; k < CLAW_NETWORKS; k++) {
        int64_t length = group[k].end - group[k].begin;
        int64_t begin = group[k].begin + part(length, w, count), end = group[k].begin + part(length, w + 1, count);
        float *sum = workers[0].gradient;
        for (int i = 1; i < count; i++) add(sum + begin, workers[i].gradient + begin, end - begin);
        norms[k * count + w] = sum_of_squares(sum + begin, end - begin);
      }
    });
    double squares[CLAW_NETWORKS] = {};
    for (int k = 0; k < CLAW_NETWORKS; k++)
      for (int w = 0; w < count; w++) squares[k] += norms[k * count + w];
    stats->actor_norm = std::sqrt(squares[CLAW_ACTOR]);
    stats->critic_norm = std::sqrt(squares[CLAW_CRITIC]);
    // As floats: Adam squares each number of the gradient.
    stats->finite = true;
    for (double x : {stats->loss, stats->max_ratio_error, squares[CLAW_ACTOR], squares[CLAW_CRITIC]})
      stats->finite = stats->finite && std::isfinite(float(x));
  }
};

namespace {

// What claw_gradient is given.
struct Task {
  const claw_loss *loss;
  const int32_t *index;
  const bool *mirror;
  const uint16_t *policy_obs, *critic_obs, *action, *label;
  const float *mean, *old_std, *label_std, *old_log_prob, *advantage, *target, *old_value;
  const bool *labelled, *teacher;
  const int32_t *near;
  double per_sample, per_student, per_label;  // 1 / count in the whole minibatch, 0 for none
};

// Loss of one sample by the actor's mean mu; d becomes the gradient by mu.
void actor_sample(const claw_core &c, const Task &t, Worker &worker, int64_t i, bool mirrored, const float *mu, float *d) {
  const int act = c.act;
  Sums &sums = worker.sums;
  std::fill(d, d + act, 0.0f);
  auto read = [&](float *dst, const uint16_t *src) {
    if (mirrored) {
      half_to_float(worker.row, src, act);
      reflect(dst, worker.row, c.action_mirror, act);
    } else {
      half_to_float(dst, src, act);
    }
  };
  if (!(t.teacher && t.teacher[i])) {
    float *a = worker.action;
    read(a, t.action + i * act);
    const float *old_mu = t.mean + i * act;
    if (mirrored) {
      reflect(worker.row, old_mu, c.action_mirror, act);
      old_mu = worker.row;
    }
    double log_prob = 0, kl = 0;
    for (int j = 0; j < act; j++) {
      double s = c.sigma[j], o = c.old_sigma[j], z = (a[j] - mu[j]) / s, shift = old_mu[j] - mu[j];
      log_prob -= 0.5 * (z * z + kLog2Pi) + c.log_sigma[j];
      kl += c.log_sigma[j] - c.log_old_sigma[j] + (o * o + shift * shift) / (2 * s * s) - 0.5;
    }
    // A mirrored sample was drawn, in the mirrored world, by the mirrored policy: its density is that of the sample itself and its
    // mean the mirrored mean, which ratio and KL are taken against. With the old policy at the mirrored observation instead
    // (design.md section 6) an action that the not yet symmetric policy would hardly take there begins at ratio 1, with a gradient of
    // many deviations: measured, training diverges (walk preset, seed 1: all rows fall at 0.6 M steps and minibatches are not finite
    // at 0.7 M). With the ratio as it is here and only the KL against that policy, which does not see how far symmetry still is, the
    // learning rate stays too high: seeds 1 to 3 walked after 1.34, 1.09 and 1.84 M steps instead of 0.84, 1.09 and 0.84.
    double ratio = std::exp(log_prob - t.old_log_prob[i]), clip = t.loss->clip, advantage = t.advantage[i];
    double clamped = std::min(std::max(ratio, 1 - clip), 1 + clip);
    double plain = -advantage * ratio, bounded = -advantage * clamped;
    sums.surrogate += std::isnan(plain) ? plain : std::max(plain, bounded);
    sums.kl += kl;
    sums.clipped += std::fabs(ratio - 1) > clip;
    sums.max_ratio_error = std::max(sums.max_ratio_error, std::fabs(ratio - 1));
    if (!(plain < bounded)) {  // the bounded branch has no slope
      double slope = plain * t.per_student;
      for (int j = 0; j < act; j++) {
        double s = c.sigma[j], z = (a[j] - mu[j]) / s;
        d[j] += float(slope * z / s);
        sums.log_std[j] += slope * (z * z - 1);
      }
    }
    for (int j = 0; j < act; j++) sums.log_std[j] -= t.loss->entropy_weight * t.per_student;
  }
  if (t.labelled && t.labelled[i]) {
    float *a = worker.label;
    read(a, t.label + i * act);
    double weight = t.loss->distill_weight * t.per_label;
    for (int j = 0; j < act; j++) {
      double s = c.sigma[j], off = double(a[j]) - mu[j], z = off / s, by_log_std = 0;
      sums.squares += off * off;
      switch (t.loss->distill) {
        case CLAW_MSE:
          sums.distill += off * off / act;
          d[j] -= float(weight * 2 * off / act);
          break;
        case CLAW_NLL:
          sums.distill += 0.5 * (z * z + kLog2Pi) + c.log_sigma[j];
          d[j] -= float(weight * z / s);
          by_log_std = 1 - z * z;
          break;
        case CLAW_KL: {
          double q = (t.label_std ? t.label_std[j] : c.sigma[j]) / s;
          sums.distill += -std::log(q) + 0.5 * (q * q + z * z - 1);
          d[j] -= float(weight * z / s);
          by_log_std = 1 - q * q - z * z;
          break;
        }
      }
      if (!t.loss->std_detached) sums.log_std[j] += weight * by_log_std;
    }
  }
  if (t.near && t.near[i] >= 0) {
    const float *near = t.mean + int64_t(t.near[i]) * act;
    if (mirrored) {
      reflect(worker.row, near, c.action_mirror, act);
      near = worker.row;
    }
    double weight = t.loss->calm_weight * t.per_sample;
    for (int j = 0; j < act; j++) {
      double off = double(mu[j]) - near[j];
      sums.calm += off * off / act;
      d[j] += float(weight * 2 * off / act);
    }
  }
}

// Loss of one sample by the critic's value; returns the gradient by it.
float critic_sample(const Task &t, Sums &sums, int64_t i, float value) {
  double error = double(value) - t.target[i], loss = error * error, slope = 2 * error, clip = t.loss->value_clip;
  if (clip > 0) {
    double moved = double(value) - t.old_value[i], bounded = t.old_value[i] + std::min(std::max(moved, -clip), clip) - t.target[i];
    if (bounded * bounded > loss) {
      loss = bounded * bounded;
      slope = std::fabs(moved) > clip ? 0 : slope;
    }
  }
  sums.value += loss;
  return float(t.loss->value_weight * slope * t.per_sample);
}

// The error of the velocity that the encoder estimates for the n samples from first on, from what the critic is shown of the true one.
// weight times its gradient is left for encode_backward; the error's sum goes into sums.
void velocity_samples(const claw_core &c, Worker &worker, const int32_t *index, const bool *mirror, const uint16_t *critic_obs,
                      double weight, int64_t first, int n) {
  const Network &critic = c.network[CLAW_CRITIC];
  const Encoded &s = worker.scratch[CLAW_ACTOR].encoded;
  const int label = c.network[CLAW_ACTOR].encoder.label;
  float want[kVelocity];
  for (int r = 0; r < n; r++) {
    const uint16_t *obs = critic_obs + int64_t(index[first + r]) * critic.in;
    half_to_float(want, obs + label, kVelocity);
    if (mirror && mirror[first + r]) {
      for (int j = 0; j < kVelocity; j++) {
        half_to_float(want + j, obs + critic.mirror.index[label + j], 1);
        want[j] *= critic.mirror.sign[label + j];
      }
    }
    for (int j = 0; j < kVelocity; j++) {
      double off = double(s.velocity[r * kVelocity + j]) - want[j];
      worker.sums.velocity += off * off / kVelocity;
      s.d_velocity[r * kVelocity + j] = float(weight * 2 * off / kVelocity);
    }
  }
}

void chunk_gradient(claw_core &c, const Task &t, Worker &worker, int64_t first, int n) {
  for (int k = 0; k < CLAW_NETWORKS; k++) {
    const Network &net = c.network[k];
    const Scratch &s = worker.scratch[k];
    const uint16_t *obs = k == CLAW_ACTOR ? t.policy_obs : t.critic_obs;
    auto mirrored = [&](int r) { return t.mirror && t.mirror[first + r]; };
    for (int r = 0; r < n; r++) take(net, s, r, obs + int64_t(t.index[first + r]) * net.in, mirrored(r));
    const float *y = forward(net, s, n);
    if (net.encoder.frames > 0)
      velocity_samples(c, worker, t.index, t.mirror, t.critic_obs, t.loss->velocity_weight * t.per_sample, first, n);
    for (int r = 0; r < n; r++) {
      int64_t i = t.index[first + r];
      if (k == CLAW_ACTOR) {
        actor_sample(c, t, worker, i, mirrored(r), y + r * c.act, s.d + r * c.act);
      } else {
        s.d[r] = critic_sample(t, worker.sums, i, y[r]);
      }
    }
    backward(net, s, n, worker.gradient);
  }
}

double inverse(int64_t count) { return count > 0 ? 1.0 / double(count) : 0; }

}  // namespace

claw_core *claw_new(const claw_config *config) {
  if (!__builtin_cpu_supports("f16c")) return nullptr;
  try {
    return new claw_core(*config);
  } catch (...) {
    return nullptr;
  }
}

void claw_free(claw_core *core) { delete core; }

void claw_mirror(claw_core *core, int network, const int32_t *index, const float *sign) {
  Network &net = core->network[network];
  net.mirror = {{index, index + net.in}, {sign, sign + net.in}};
}

void claw_mirror_action(claw_core *core, const int32_t *index, const float *sign) {
  core->action_mirror = {{index, index + core->act}, {sign, sign + core->act}};
}

void claw_normalise(claw_core *core, int network, const float *mean, const float *std) {
  Network &net = core->network[network];
  net.mean.clear();
  net.std.clear();
  if (!mean) return;
  net.mean.assign(mean, mean + net.in);
  net.std.assign(std, std + net.in);
}

void claw_forward(claw_core *core, int network, int64_t n, const uint16_t *obs, float *out) {
  const Network &net = core->network[network];
  const int64_t chunk = core->chunk;
  int64_t flops = net.encoder.flops();
  for (const Layer &l : net.layers) flops += 2 * int64_t(l.in) * l.out;
  auto rows = [&](int w, int64_t begin, int64_t end) {
    const Scratch &s = core->workers[w].scratch[network];
    for (int64_t first = begin; first < end; first += chunk) {
      int count = int(std::min(chunk, end - first));
      for (int r = 0; r < count; r++) take(net, s, r, obs + (first + r) * net.in, false);
      std::memcpy(out + first * net.out, forward(net, s, count), size_t(count) * net.out * sizeof(float));
    }
  };
  int workers = core->pool.workers();
  if (workers == 1 || n * flops < kThreadFlops) {
    Arithmetic arithmetic;
    rows(0, 0, n);
    return;
  }
  core->pool.run([&](int w) { rows(w, part(n, w, workers), part(n, w + 1, workers)); });
}

void claw_estimate(claw_core *core, int64_t n, const uint16_t *obs, float *out) {
  Arithmetic arithmetic;
  const Network &net = core->network[CLAW_ACTOR];
  const Scratch &s = core->workers[0].scratch[CLAW_ACTOR];
  for (int64_t first = 0; first < n; first += core->chunk) {
    int count = int(std::min(core->chunk, n - first));
    for (int r = 0; r < count; r++) take(net, s, r, obs + (first + r) * net.in, false);
    encode(net.encoder, s.x, s.encoded, count);
    std::memcpy(out + first * kVelocity, s.encoded.velocity, size_t(count) * kVelocity * sizeof(float));
  }
}

void claw_gradient(claw_core *core, const claw_loss *loss, int64_t n, const int32_t *index, const bool *mirror,
                   const uint16_t *policy_obs, const uint16_t *critic_obs, const uint16_t *action, const uint16_t *label,
                   const float *mean, const float *old_std, const float *label_std,
                   const float *old_log_prob, const float *advantage, const float *target, const float *old_value,
                   const bool *labelled, const bool *teacher, const int32_t *near, claw_stats *stats) {
  claw_stats s = {};
  s.samples = n;
  for (int64_t i = 0; i < n; i++) {
    s.students += !(teacher && teacher[index[i]]);
    s.labelled += labelled && labelled[index[i]];
  }
  for (int j = 0; j < core->act; j++) {
    core->log_sigma[j] = core->log_std.value[j];
    core->sigma[j] = float(std::exp(core->log_sigma[j]));  // as Std tells it
    core->old_sigma[j] = old_std[j];
    core->log_old_sigma[j] = std::log(core->old_sigma[j]);
    s.entropy += core->log_sigma[j] + 0.5 * (1 + kLog2Pi);
  }
  if (s.students == 0) s.entropy = 0;
  Task task = {loss,   index,     mirror,    policy_obs,   critic_obs, action, label,     mean,    old_std,
               label_std, old_log_prob, advantage, target, old_value, labelled, teacher, near,
               inverse(n), inverse(s.students), inverse(s.labelled)};
  core->chunks(n, [&](Worker &worker, int64_t first, int count) { chunk_gradient(*core, task, worker, first, count); });
  for (const Worker &worker : core->workers) {
    s.surrogate += worker.sums.surrogate * task.per_student;
    s.kl += worker.sums.kl * task.per_student;
    s.clip_fraction += worker.sums.clipped * task.per_student;
    s.value += worker.sums.value * task.per_sample;
    s.velocity += worker.sums.velocity * task.per_sample;
    s.calm += worker.sums.calm * task.per_sample;
    s.distill += worker.sums.distill * task.per_label;
    s.label_rmse += worker.sums.squares * task.per_label / core->act;
    s.max_ratio_error = std::max(s.max_ratio_error, worker.sums.max_ratio_error);
  }
  s.label_rmse = std::sqrt(s.label_rmse);
  s.loss = s.surrogate + loss->value_weight * s.value - loss->entropy_weight * s.entropy + loss->distill_weight * s.distill +
           loss->calm_weight * s.calm;
  if (core->network[CLAW_ACTOR].encoder.frames > 0) s.loss += loss->velocity_weight * s.velocity;
  core->gather(&s);
  *stats = s;
}

void claw_regress(claw_core *core, int64_t n, const int32_t *index, const bool *mirror, const uint16_t *policy_obs,
                  const uint16_t *critic_obs, const uint16_t *target, float velocity_weight, claw_stats *stats) {
  claw_stats s = {};
  s.samples = s.labelled = n;
  const int act = core->act;
  const Network &net = core->network[CLAW_ACTOR];
  const double weight = inverse(n * act);
  core->chunks(n, [&](Worker &worker, int64_t first, int count) {
    const Scratch &scratch = worker.scratch[CLAW_ACTOR];
    auto mirrored = [&](int r) { return mirror && mirror[first + r]; };
    for (int r = 0; r < count; r++) take(net, scratch, r, policy_obs + int64_t(index[first + r]) * net.in, mirrored(r));
    const float *mu = forward(net, scratch, count);
    if (net.encoder.frames > 0) velocity_samples(*core, worker, index, mirror, critic_obs, velocity_weight * inverse(n), first, count);
    for (int r = 0; r < count; r++, mu += act) {
      float *want = worker.label;
      half_to_float(want, target + int64_t(index[first + r]) * act, act);
      if (mirrored(r)) {
        std::memcpy(worker.row, want, act * sizeof(float));
        reflect(want, worker.row, core->action_mirror, act);
      }
      for (int j = 0; j < act; j++) {
        double off = double(mu[j]) - want[j];
        worker.sums.squares += off * off;
        scratch.d[r * act + j] = float(2 * off * weight);
      }
    }
    backward(net, scratch, count, worker.gradient);
  });
  for (const Worker &worker : core->workers) {
    s.distill += worker.sums.squares * weight;
    s.velocity += worker.sums.velocity * inverse(n);
  }
  s.loss = s.distill + velocity_weight * s.velocity;
  s.label_rmse = std::sqrt(s.distill);
  core->gather(&s);
  *stats = s;
}

void claw_adam(claw_core *core, double learning_rate, float actor_scale, float critic_scale, const int64_t *count) {
  Arithmetic arithmetic;
  auto step = [&](const claw_param &p, int64_t t, float scale) {
    if (t == 0) return;
    float size = float(learning_rate / (1 - std::pow(0.9, double(t))));
    float root = float(1 / std::sqrt(1 - std::pow(0.999, double(t))));
    adam(p.value, core->workers[0].gradient + p.offset, core->m + p.offset, core->v + p.offset, p.size, scale, size, root);
  };
  for (const claw_param &p : core->params[CLAW_ACTOR]) step(p, count[0], actor_scale);
  step(core->log_std, count[1], actor_scale);
  for (const claw_param &p : core->params[CLAW_CRITIC]) step(p, count[2], critic_scale);
  for (int j = 0; j < core->act; j++)
    core->log_std.value[j] = std::min(std::max(core->log_std.value[j], core->min_log_std), core->max_log_std);
}

const float *claw_flat_gradient(const claw_core *core) { return core->workers[0].gradient; }
