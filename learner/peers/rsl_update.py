"""rsl-rl-lib's PPO update, timed on request: the other side of bench_learning.py's update.

    bench_learning.py ── "2 after.safetensors\\n" ──► stdin    an update on 2 threads
                      ◄── JSON ──────────────────── stdout   one line: what it took, and its learning rates

Weights and samples are made here, from a seed, and written to --data for both sides. The first line of stdout says with what settings.
Each measurement begins from them; only PPO.update is timed, and then the parameters are written to the file that was named.

The samples are as a policy saw them that has since moved a little: KL divergence and ratios are numbers from the first minibatch on, so
that both sides' learning rate takes the same way for another reason than chance. Observations and actions are numbers that fp16 holds.
"""

import argparse
import json
import time

import safetensors.numpy
import tensordict
import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage

import rsl
from rsl import STEPS, worker

MOVED = 0.02  # standard deviations of the actions by which the policy has moved since it drove


def half(tensor):
    """Rounded to what fp16 holds."""
    return tensor.half().float()


class Learner:
    """The algorithm with its storage full."""

    def __init__(self, args):
        torch.manual_seed(args.seed)
        rows = args.samples // STEPS
        groups = {"actor": ["policy"], "critic": ["critic"]}
        obs = self.observations(rows, args)
        actor = MLPModel(obs, groups, "actor", args.actions, distribution_cfg=rsl.spread(), **rsl.network(args.hidden))
        critic = MLPModel(obs, groups, "critic", 1, **rsl.network(args.hidden))
        storage = RolloutStorage("rl", rows, STEPS, obs, [args.actions])
        self.ppo = PPO(actor, critic, storage, **rsl.PPO)
        self.ppo.train_mode()
        with torch.no_grad():
            self.fill(rows, args)
        self.begin = {name: p.detach().clone() for name, p in self.parameters()}
        self.seed = args.seed + 1
        torch.manual_seed(self.seed)
        self.order = torch.randperm(args.samples)  # what mini_batch_generator will draw from the same seed
        self.rates = []
        self.ppo.optimizer.register_step_pre_hook(lambda *_: self.rates.append(self.ppo.learning_rate))

    @staticmethod
    def observations(rows, args):
        return tensordict.TensorDict({"policy": half(torch.randn(rows, args.policy)), "critic": half(torch.randn(rows, args.critic))},
                                     batch_size=[rows])

    def fill(self, rows, args):
        """Has a policy act that is a little another one: its actions, values and what came of them."""
        wanted = torch.randn(args.actions)  # what the advantage likes actions to be
        storage = self.ppo.storage
        for _ in range(STEPS):
            step = RolloutStorage.Transition()
            step.observations = self.observations(rows, args)
            self.ppo.actor(step.observations, stochastic_output=True)
            now, std = self.ppo.actor.output_distribution_params
            mean, std = now + MOVED * std * torch.randn_like(now), std.clone()
            step.actions = half(mean + std * torch.randn_like(mean))
            step.distribution_params = (mean, std)
            step.actions_log_prob = torch.distributions.Normal(mean, std).log_prob(step.actions).sum(-1)
            step.values = self.ppo.critic(step.observations) + 0.1 * torch.randn(rows, 1)
            step.rewards, step.dones = torch.zeros(rows), torch.zeros(rows)
            gained = ((step.actions - mean) / std * wanted).sum(-1, keepdim=True) + 3 * torch.randn(rows, 1)
            storage.advantages[storage.step] = gained
            storage.returns[storage.step] = step.values + 0.3 * gained
            storage.add_transition(step)
        storage.advantages = (storage.advantages - storage.advantages.mean()) / (storage.advantages.std() + 1e-8)

    def parameters(self):
        """By clawlearn's names."""
        for network, model in (("actor", self.ppo.actor), ("critic", self.ppo.critic)):
            for name, parameter in model.named_parameters():
                if name == "distribution.log_std_param":
                    yield "log_std", parameter
                else:
                    _, layer, kind = name.split(".")  # mlp.2.weight: every second module is an activation
                    yield "%s.%d.%s" % (network, int(layer) // 2, kind), parameter

    def problem(self):
        """What clawlearn is given: parameters and samples."""
        s = self.ppo.storage
        flat = {name: t.flatten(0, 1).squeeze(-1) for name, t in (
            ("policy_obs", s.observations["policy"]), ("critic_obs", s.observations["critic"]), ("action", s.actions),
            ("mean", s.distribution_params[0]), ("log_prob", s.actions_log_prob), ("advantage", s.advantages), ("target", s.returns),
            ("value", s.values))}
        for name in ("policy_obs", "critic_obs", "action"):
            flat[name] = flat[name].half()
        flat["std"], flat["order"] = s.distribution_params[1][0][0], self.order.int()
        flat.update(self.begin)
        return {name: t.contiguous().numpy() for name, t in flat.items()}

    def update(self, threads):
        """One update from the beginning."""
        torch.set_num_threads(threads)
        with torch.no_grad():
            for name, parameter in self.parameters():
                parameter.copy_(self.begin[name])
        self.ppo.optimizer.state.clear()
        self.ppo.learning_rate = rsl.PPO["learning_rate"]
        self.rates.clear()
        torch.manual_seed(self.seed)
        cpu, start = worker.cpu_seconds(), time.perf_counter()
        losses = self.ppo.update()
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "steps_per_s": len(self.order) / seconds, "threads": threads, "learning_rates": list(self.rates),
                "cpu_us_per_step": 1e6 * (worker.cpu_seconds() - cpu) / len(self.order), "rss_mb": worker.memory_mb(), "losses": losses}

    def result(self):
        return {name: p.detach().numpy() for name, p in self.parameters()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", required=True, help="file to write weights and samples to")
    parser.add_argument("--samples", type=int, default=98304)
    parser.add_argument("--hidden", type=json.loads, default=[512, 256, 128], help="widths of the hidden layers, [512,256,128]")
    parser.add_argument("--policy", type=int, default=47, help="numbers that the actor sees")
    parser.add_argument("--critic", type=int, default=63, help="and the critic")
    parser.add_argument("--actions", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    whole = STEPS * rsl.PPO["num_mini_batches"]
    if args.samples < 1 or args.samples % whole:
        parser.error("--samples %d: want a multiple of %d" % (args.samples, whole))
    stream = worker.own_stdout()
    learner = Learner(args)
    safetensors.numpy.save_file(learner.problem(), args.data)

    def answer(line):
        threads, path = line.split(" ", 1)
        measured = learner.update(int(threads))
        safetensors.numpy.save_file(learner.result(), path)
        return measured

    worker.serve(stream, {"settings": dict(rsl.settings(args.hidden, [args.policy, args.critic], args.actions), samples=args.samples)}, answer)


if __name__ == "__main__":
    main()
