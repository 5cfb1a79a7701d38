//go:build torch

// The update of core.cpp once more, by libtorch's tensor operations and its autograd: slower on a CPU, and the same on any device.
//
//	parameters, moments, samples --take--> device: index --> loss --backward--> gradient --> Adam --bring--> parameters, moments
//
// Networks compute in float32 (libtorch's matrix products round to TensorFloat32 only where it is asked to), the loss of what they
// give in double, as in core.cpp. All of the device's waiting is for the few numbers of claw_stats, once a minibatch.

#include "device.h"

#include <dlfcn.h>

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using at::Tensor;

const double kLog2Pi = 1.8378770664093453;
const int kVelocity = 3;  // numbers of a velocity

// A sentence for C, or NULL of none.
char *sentence(const std::string &text) { return text.empty() ? nullptr : strdup(text.substr(0, text.find('\n')).c_str()); }

// Calls f and says what it threw.
template <typename F>
char *guarded(F f) {
  try {
    f();
    return nullptr;
  } catch (const c10::Error &e) {
    return sentence(e.what_without_backtrace());
  } catch (const std::exception &e) {
    return sentence(e.what());
  }
}

double inverse(int64_t count) { return count > 0 ? 1.0 / double(count) : 0; }

// y (n x out) = x (n x in) weight^T + bias.
struct Linear {
  Tensor weight, bias;
  Tensor operator()(const Tensor &x) const { return at::linear(x, weight, bias); }
};

struct Mirror {
  Tensor index, sign;
};

struct Conv {
  Linear layer;
  int kernel, stride;
};

struct Network {
  int64_t in = 0;  // numbers of an observation
  int64_t frame = 0, frames = 0, label = 0;  // of an encoder: as in claw_encoder; frames 0: none
  std::vector<Conv> convs;
  Linear latent, velocity;
  std::vector<Linear> layers;
  Mirror mirror;
  Tensor mean, std;  // undefined: no normaliser
};

// What a network makes of observations: its outputs and, of an encoder, the velocities (n x 3).
struct Output {
  Tensor y, velocity;
};

Output forward(const Network &net, const Tensor &obs) {
  Tensor x = obs, velocity;
  if (net.frames > 0) {
    const int64_t n = obs.size(0);
    Tensor seen = obs.view({n, net.frames, net.frame});
    for (const Conv &c : net.convs) {
      int64_t skip = (seen.size(1) - c.kernel) % c.stride;  // the last kernel ends with the newest
      Tensor pieces = seen.narrow(1, skip, seen.size(1) - skip).unfold(1, c.kernel, c.stride).transpose(2, 3);
      seen = at::elu(c.layer(pieces.reshape({n, pieces.size(1), -1})));
    }
    seen = seen.reshape({n, -1});
    velocity = net.velocity(seen);
    x = at::cat({obs.narrow(1, net.in - net.frame, net.frame), at::elu(net.latent(seen)), velocity.detach()}, 1);
  }
  for (size_t i = 0; i < net.layers.size(); i++) {
    x = net.layers[i](x);
    if (i + 1 < net.layers.size()) x = at::elu(x);
  }
  return {x, velocity};
}

}  // namespace

struct claw_device {
  claw_device(const claw_config &c, const char *name)
      : device(name), act(c.act), m_host(c.m), v_host(c.v), min_log_std(c.min_log_std), max_log_std(c.max_log_std) {
    for (Tensor *t : {&flat, &gradient, &m, &v}) *t = at::zeros({c.flat}, on(at::kFloat));
    const claw_param *p = c.param;
    auto linear = [&](int64_t out, int64_t in) {
      Tensor weight = leaf(*p++, {out, in}), bias = leaf(*p++, {out});
      return Linear{weight, bias};
    };
    Network &actor = network[CLAW_ACTOR];
    if (const claw_encoder &e = c.encoder; e.frames > 0) {
      actor.frame = e.frame;
      actor.frames = e.frames;
      actor.label = e.velocity;
      int64_t length = e.frames, channels = e.frame;
      for (const claw_conv *v = e.conv; v < e.conv + e.convs; v++) {
        actor.convs.push_back({linear(v->out, v->kernel * channels), v->kernel, v->stride});
        length = (length - v->kernel) / v->stride + 1;
        channels = v->out;
      }
      actor.latent = linear(e.latent, length * channels);
      actor.velocity = linear(kVelocity, length * channels);
    }
    for (int k = 0; k < CLAW_NETWORKS; k++) {
      for (int i = 0; i < c.layers[k]; i++) network[k].layers.push_back(linear(c.width[k][i + 1], c.width[k][i]));
      network[k].in = c.width[k][0];
      if (k == CLAW_ACTOR) {
        range[1] = {p->offset, p->offset + p->size};
        log_std = leaf(*p++, {act});
        range[0] = {0, range[1].begin};
        range[2] = {p->offset, c.flat};
      }
    }
    if (actor.frames > 0) actor.in = actor.frame * actor.frames;
  }

  struct Range {
    int64_t begin, end;
  };

  const at::Device device;
  const int64_t act;
  Tensor flat, gradient, m, v;  // as in core.cpp: parameters, their gradient and moments, one after the other
  Network network[CLAW_NETWORKS];
  Tensor log_std;
  Range range[3];  // of the flat arrays: actor, log std, critic
  Mirror action_mirror;
  std::vector<claw_param> params;
  float *m_host, *v_host;
  const float min_log_std, max_log_std;

  // The samples; undefined: not there.
  Tensor policy_obs, critic_obs, action, label, mean, old_log_prob, advantage, target, old_value, labelled, teacher, near;

  at::TensorOptions on(at::ScalarType type) const { return at::TensorOptions().device(device).dtype(type); }

  // A parameter that autograd knows, in flat's memory, with its gradient in gradient's.
  Tensor leaf(const claw_param &p, at::IntArrayRef shape) {
    params.push_back(p);
    Tensor t = flat.narrow(0, p.offset, p.size).view(shape).detach().requires_grad_(true);
    t.mutable_grad() = gradient.narrow(0, p.offset, p.size).view(shape);
    return t;
  }

  // A copy of host memory on the device; undefined of NULL.
  Tensor copy(const void *data, at::IntArrayRef shape, at::ScalarType type) const {
    if (!data) return Tensor();
    Tensor host = at::from_blob(const_cast<void *>(data), shape, at::TensorOptions().dtype(type));
    return at::empty(shape, on(type)).copy_(host);
  }
  Mirror copy(const int32_t *index, const float *sign, int64_t n) const {
    return {copy(index, {n}, at::kInt), copy(sign, {n}, at::kFloat)};
  }
};

namespace {

// A minibatch: samples by index, mirrored (n x 1, undefined: none).
struct Drawn {
  Drawn(const claw_device &d, int64_t n, const int32_t *index, const bool *mirror)
      : d(d), n(n), index(d.copy(index, {n}, at::kInt)), mirrored(d.copy(mirror, {n, 1}, at::kBool)) {}

  Tensor of(const Tensor &whole) const { return whole.index_select(0, index); }
  Tensor of(const Tensor &whole, const Mirror &m) const { return reflected(of(whole).to(at::kFloat), m); }
  Tensor reflected(const Tensor &x, const Mirror &m) const {
    return mirrored.defined() ? at::where(mirrored, x.index_select(1, m.index) * m.sign, x) : x;
  }
  // What a network is shown.
  Tensor seen(const Tensor &obs, const Network &net) const {
    Tensor x = of(obs, net.mirror);
    return net.mean.defined() ? (x - net.mean) / net.std : x;
  }
  // What a sample has that flags (n, undefined: none) name.
  Tensor flags(const Tensor &whole) const { return whole.defined() ? of(whole) : at::zeros({n}, d.on(at::kBool)); }
  // Mean squared error of an encoder's velocities.
  Tensor velocity_error(const Tensor &velocity) const {
    Tensor truth = of(d.critic_obs, d.network[CLAW_CRITIC].mirror).narrow(1, d.network[CLAW_ACTOR].label, kVelocity);
    return (velocity.to(at::kDouble) - truth).square().mean();
  }

  const claw_device &d;
  int64_t n;
  Tensor index, mirrored;
};

// x where flags say so, else 0, and so its gradient: what else is there may be anything.
Tensor only(const Tensor &flags, const Tensor &x) { return at::where(x.dim() > flags.dim() ? flags.unsqueeze(1) : flags, x, 0.0); }

// Goes backward from loss and fills stats from those tensors and the gradient's norms.
void conclude(claw_device &d, const Tensor &loss, std::vector<std::pair<double *, Tensor>> numbers, claw_stats *stats) {
  d.gradient.zero_();
  loss.backward();
  auto squares = [&](int64_t begin, int64_t end) { return d.gradient.narrow(0, begin, end - begin).to(at::kDouble).square().sum(); };
  numbers.emplace_back(&stats->loss, loss.detach());
  numbers.emplace_back(&stats->actor_norm, squares(0, d.range[1].end));
  numbers.emplace_back(&stats->critic_norm, squares(d.range[2].begin, d.range[2].end));
  std::vector<Tensor> all;
  for (const auto &number : numbers) all.push_back(number.second);
  Tensor host = at::stack(all).to(at::kCPU);
  for (size_t i = 0; i < numbers.size(); i++) *numbers[i].first = host.data_ptr<double>()[i];
  stats->finite = true;
  for (double x : {stats->loss, stats->max_ratio_error, stats->actor_norm, stats->critic_norm})
    stats->finite = stats->finite && std::isfinite(float(x));
  stats->actor_norm = std::sqrt(stats->actor_norm);
  stats->critic_norm = std::sqrt(stats->critic_norm);
  stats->label_rmse = std::sqrt(stats->label_rmse);
}

// Actor, critic and their losses, as Loss in update.go defines them and actor_sample and critic_sample in core.cpp compute them.
void gradient(claw_device &d, const claw_loss &l, const Drawn &drawn, const float *old_std, const float *label_std, claw_stats *stats) {
  const double act = double(d.act), per_sample = inverse(stats->samples), per_student = inverse(stats->students),
               per_label = inverse(stats->labelled), clip = l.clip;
  const Network &actor = d.network[CLAW_ACTOR];
  Output out = forward(actor, drawn.seen(d.policy_obs, actor));
  Tensor value = forward(d.network[CLAW_CRITIC], drawn.seen(d.critic_obs, d.network[CLAW_CRITIC])).y.squeeze(1).to(at::kDouble);
  Tensor mu = out.y.to(at::kDouble), log_std = d.log_std.to(at::kDouble);
  Tensor std = log_std.exp().to(at::kFloat).to(at::kDouble);  // as Std tells it

  Tensor student = drawn.flags(d.teacher).logical_not();
  Tensor z = only(student, drawn.of(d.action, d.action_mirror) - mu) / std;
  Tensor log_prob = -((z.square() + kLog2Pi) * 0.5 + log_std).sum(1);
  Tensor ratio = only(student, log_prob - drawn.of(d.old_log_prob)).exp(), off_one = (ratio - 1).abs().detach();  // a teacher's is 1
  Tensor against = -only(student, drawn.of(d.advantage).to(at::kDouble));
  Tensor surrogate = at::maximum(against * ratio, against * ratio.clamp(1 - clip, 1 + clip)).sum() * per_student;
  Tensor entropy = stats->students > 0 ? (log_std + 0.5 * (1 + kLog2Pi)).sum() : at::zeros({}, d.on(at::kDouble));
  Tensor old = d.copy(old_std, {d.act}, at::kFloat).to(at::kDouble), s = std.detach();
  Tensor shift = drawn.of(d.mean, d.action_mirror) - mu.detach();
  Tensor kl = (log_std.detach() - old.log() + (old.square() + shift.square()) / (s.square() * 2) - 0.5).sum(1);

  Tensor target = drawn.of(d.target).to(at::kDouble), squares = (value - target).square();
  if (l.value_clip > 0) {
    Tensor before = drawn.of(d.old_value).to(at::kDouble);
    squares = at::maximum(squares, (before + (value - before).clamp(-double(l.value_clip), double(l.value_clip)) - target).square());
  }
  Tensor value_loss = squares.sum() * per_sample;

  Tensor distill = at::zeros({}, d.on(at::kDouble)), label_squares = distill, calm = distill, velocity = distill;
  if (stats->labelled > 0) {
    Tensor has = drawn.flags(d.labelled), off = only(has, drawn.of(d.label, d.action_mirror) - mu);
    Tensor spread = l.std_detached ? std.detach() : std, log_spread = l.std_detached ? log_std.detach() : log_std;
    Tensor each;
    switch (l.distill) {
      case CLAW_MSE:
        each = off.square() / act;
        break;
      case CLAW_NLL:
        each = ((off / spread).square() + kLog2Pi) * 0.5 + log_spread;
        break;
      case CLAW_KL: {
        Tensor theirs = label_std ? d.copy(label_std, {d.act}, at::kFloat).to(at::kDouble) : s;
        Tensor q = theirs / spread;
        each = (q.square() + (off / spread).square() - 1) * 0.5 - q.log();
        break;
      }
    }
    distill = only(has, each.sum(1)).sum() * per_label;
    label_squares = off.detach().square().sum() * (per_label / act);
  }
  if (d.near.defined()) {
    Tensor which = drawn.of(d.near);
    Tensor near = drawn.reflected(d.mean.index_select(0, which.clamp_min(0)), d.action_mirror);
    calm = only(which.ge(0), mu - near).square().sum() * (per_sample / act);
  }

  Tensor loss = surrogate + value_loss * double(l.value_weight) - entropy * double(l.entropy_weight) + distill * double(l.distill_weight) +
                calm * double(l.calm_weight);
  if (actor.frames > 0) {
    velocity = drawn.velocity_error(out.velocity);
    loss = loss + velocity * double(l.velocity_weight);
  }
  conclude(d, loss,
           {{&stats->surrogate, surrogate.detach()},
            {&stats->value, value_loss.detach()},
            {&stats->entropy, entropy.detach()},
            {&stats->kl, only(student, kl).sum() * per_student},
            {&stats->clip_fraction, off_one.gt(clip).sum().to(at::kDouble) * per_student},
            {&stats->max_ratio_error, off_one.max()},
            {&stats->distill, distill.detach()},
            {&stats->label_rmse, label_squares},
            {&stats->velocity, velocity.detach()},
            {&stats->calm, calm.detach()}},
           stats);
}

// What a GPU needs beside itself.
std::string lacks(const at::Device &device) {
  std::string lacking;
  auto load = [&](const char *what, const char *library) {
    if (dlopen(library, RTLD_NOW | RTLD_GLOBAL)) return;
    lacking += (lacking.empty() ? "" : "; ") + std::string(what) + " (" + dlerror() + ")";
  };
  load("no NVIDIA driver", "libcuda.so.1");
  load("no CUDA half of libtorch, which make deps-torch leaves out: README.md says where it is", "libtorch_cuda.so");
  if (!lacking.empty()) return lacking;
  const int gpus = at::detail::getCUDAHooks().getNumGPUs();
  if (device.index() < gpus) return "";
  return gpus == 0 ? "no GPU that libtorch can use" : "GPUs here: " + std::to_string(gpus) + ", counted from 0";
}

}  // namespace

char *claw_device_lacks(const char *device) {
  std::string lacking;
  char *thrown = guarded([&] {
    at::Device d(device);
    if (d.is_cuda()) lacking = lacks(d);
  });
  return thrown ? thrown : sentence(lacking);
}

char *claw_device_new(const claw_config *of, const char *device, claw_device **made) {
  return guarded([&] { *made = new claw_device(*of, device); });
}

void claw_device_free(claw_device *d) { delete d; }

char *claw_device_mirror(claw_device *d, int network, const int32_t *index, const float *sign) {
  return guarded([&] { d->network[network].mirror = d->copy(index, sign, d->network[network].in); });
}

char *claw_device_mirror_action(claw_device *d, const int32_t *index, const float *sign) {
  return guarded([&] { d->action_mirror = d->copy(index, sign, d->act); });
}

char *claw_device_normalise(claw_device *d, int network, const float *mean, const float *std) {
  return guarded([&] {
    Network &net = d->network[network];
    net.mean = d->copy(mean, {net.in}, at::kFloat);
    net.std = d->copy(std, {net.in}, at::kFloat);
  });
}

char *claw_device_take(claw_device *d, int64_t samples, const uint16_t *policy_obs, const uint16_t *critic_obs, const uint16_t *action,
                       const uint16_t *label, const float *mean, const float *old_log_prob, const float *advantage, const float *target,
                       const float *old_value, const bool *labelled, const bool *teacher, const int32_t *near) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    const int64_t n = samples, policy = d->network[CLAW_ACTOR].in, critic = d->network[CLAW_CRITIC].in;
    d->policy_obs = d->copy(policy_obs, {n, policy}, at::kHalf);
    d->critic_obs = d->copy(critic_obs, {n, critic}, at::kHalf);
    d->action = d->copy(action, {n, d->act}, at::kHalf);
    d->label = d->copy(label, {n, d->act}, at::kHalf);
    d->mean = d->copy(mean, {n, d->act}, at::kFloat);
    d->old_log_prob = d->copy(old_log_prob, {n}, at::kFloat);
    d->advantage = d->copy(advantage, {n}, at::kFloat);
    d->target = d->copy(target, {n}, at::kFloat);
    d->old_value = d->copy(old_value, {n}, at::kFloat);
    d->labelled = d->copy(labelled, {n}, at::kBool);
    d->teacher = d->copy(teacher, {n}, at::kBool);
    d->near = d->copy(near, {n}, at::kInt);
    std::vector<float> host(d->flat.numel());
    for (const claw_param &p : d->params) std::memcpy(host.data() + p.offset, p.value, p.size * sizeof(float));
    d->flat.copy_(at::from_blob(host.data(), {d->flat.numel()}));
    d->m.copy_(at::from_blob(d->m_host, {d->flat.numel()}));
    d->v.copy_(at::from_blob(d->v_host, {d->flat.numel()}));
  });
}

char *claw_device_bring(claw_device *d) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    for (Tensor *t : {&d->policy_obs, &d->critic_obs, &d->action, &d->label, &d->mean, &d->old_log_prob, &d->advantage, &d->target,
                      &d->old_value, &d->labelled, &d->teacher, &d->near})
      *t = Tensor();
    Tensor host = d->flat.to(at::kCPU);
    for (const claw_param &p : d->params) std::memcpy(p.value, host.data_ptr<float>() + p.offset, p.size * sizeof(float));
    at::from_blob(d->m_host, {d->flat.numel()}).copy_(d->m);
    at::from_blob(d->v_host, {d->flat.numel()}).copy_(d->v);
  });
}

char *claw_device_gradient(claw_device *d, const claw_loss *loss, int64_t n, const int32_t *index, const bool *mirror, const float *old_std,
                           const float *label_std, int64_t students, int64_t labelled, claw_stats *stats) {
  return guarded([&] {
    c10::AutoGradMode with_grad(true);
    *stats = {};
    stats->samples = n;
    stats->students = students;
    stats->labelled = labelled;
    gradient(*d, *loss, Drawn(*d, n, index, mirror), old_std, label_std, stats);
  });
}

char *claw_device_regress(claw_device *d, int64_t n, const int32_t *index, const bool *mirror, float velocity_weight, claw_stats *stats) {
  return guarded([&] {
    c10::AutoGradMode with_grad(true);
    *stats = {};
    stats->samples = stats->labelled = n;
    const Network &actor = d->network[CLAW_ACTOR];
    Drawn drawn(*d, n, index, mirror);
    Output out = forward(actor, drawn.seen(d->policy_obs, actor));
    Tensor error = (out.y.to(at::kDouble) - drawn.of(d->label, d->action_mirror)).square().mean(), loss = error;
    Tensor velocity = at::zeros({}, d->on(at::kDouble));
    if (actor.frames > 0) {
      velocity = drawn.velocity_error(out.velocity);
      loss = error + velocity * double(velocity_weight);
    }
    conclude(*d, loss, {{&stats->distill, error.detach()}, {&stats->label_rmse, error.detach()}, {&stats->velocity, velocity.detach()}}, stats);
  });
}

char *claw_device_adam(claw_device *d, double learning_rate, float actor_scale, float critic_scale, const int64_t *count) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    const float scale[] = {actor_scale, actor_scale, critic_scale};
    for (int k = 0; k < 3; k++) {
      if (count[k] == 0) continue;
      double t = double(count[k]), step = learning_rate / (1 - std::pow(0.9, t)), root = 1 / std::sqrt(1 - std::pow(0.999, t));
      auto part = [&](const Tensor &x) { return x.narrow(0, d->range[k].begin, d->range[k].end - d->range[k].begin); };
      Tensor g = part(d->gradient) * scale[k], m = part(d->m), v = part(d->v);
      m.mul_(0.9).add_(g, 0.1);
      v.mul_(0.999).addcmul_(g, g, 0.001);
      part(d->flat).addcdiv_(m, v.sqrt().mul_(root).add_(1e-8), -step);
    }
    d->flat.narrow(0, d->range[1].begin, d->act).clamp_(d->min_log_std, d->max_log_std);
  });
}

char *claw_device_flat_gradient(const claw_device *d, float *gradient) {
  return guarded([&] { at::from_blob(gradient, {d->gradient.numel()}).copy_(d->gradient); });
}
