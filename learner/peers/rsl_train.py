"""EnvPool's Go1 under rsl-rl-lib's training loop, timed on request: the other side of bench_learning.py's train.

    bench_learning.py ── "2 20\\n" ──► stdin    20 iterations, torch with 2 threads
                      ◄── JSON ────── stdout   one line: what they took

The first line of stdout says what is trained. A measurement begins with new rows and the first weights, and two iterations that do not
count. Nothing is logged or saved.
"""

import argparse
import json
import time

import envpool
import numpy
import tensordict
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner

import rsl
from rsl import worker

TASK = "Go1JoystickFlatTerrain-v1"
WARM = 2  # iterations
CRITIC = 63  # numbers that the critic sees: the first of 123, as many as clawlearn's


class Go1(VecEnv):
    """EnvPool's rows as rsl_rl wants them. A row that ended begins anew in the step after."""

    def __init__(self, rows, threads, seed):
        self.pool = envpool.make(TASK, env_type="gymnasium", num_envs=rows, num_threads=threads, seed=seed)
        self.num_envs, self.device, self.cfg = rows, "cpu", {}
        self.num_actions = self.pool.action_space.shape[0]
        self.max_episode_length = self.pool.spec.config.max_episode_steps
        self.episode_length_buf = torch.zeros(rows, dtype=torch.long)
        self.begin()

    def begin(self):
        """New episodes in all rows."""
        self.take(self.pool.reset()[0])

    def take(self, seen):
        self.seen = tensordict.TensorDict({"policy": torch.from_numpy(seen["state"]).float(),
                                           "critic": torch.from_numpy(seen["privileged_state"][:, :CRITIC]).float()},
                                          batch_size=[self.num_envs])

    def get_observations(self):
        return self.seen

    def step(self, actions):
        seen, reward, fell, late, _ = self.pool.step(actions.numpy().astype(numpy.float64))
        self.take(seen)
        done = torch.from_numpy(fell | late)
        self.episode_length_buf = (self.episode_length_buf + 1) * ~done
        return self.seen, torch.from_numpy(reward).float(), done, {"time_outs": torch.from_numpy(late & ~fell)}


class Trainer:
    """The training loop, and the weights that it begins from."""

    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.env = Go1(args.rows, args.threads, args.seed)
        actor = dict(rsl.network(args.hidden), class_name="MLPModel", distribution_cfg=rsl.spread())
        critic = dict(rsl.network(args.hidden), class_name="MLPModel")
        self.runner = OnPolicyRunner(self.env, {
            "num_steps_per_env": rsl.STEPS, "save_interval": 1 << 30, "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
            "algorithm": dict(rsl.PPO, class_name="PPO"), "actor": actor, "critic": critic}, log_dir=None, device="cpu")
        self.models = {"actor": self.runner.alg.actor, "critic": self.runner.alg.critic}
        self.first = {name: {key: t.clone() for key, t in model.state_dict().items()} for name, model in self.models.items()}

    def train(self, threads, iterations):
        """Iterations from the beginning."""
        torch.set_num_threads(threads)
        alg = self.runner.alg
        for name, model in self.models.items():
            model.load_state_dict(self.first[name])
        alg.optimizer.state.clear()
        alg.learning_rate = rsl.PPO["learning_rate"]
        self.env.begin()
        self.runner.learn(WARM)
        cpu, start = worker.cpu_seconds(), time.perf_counter()
        self.runner.learn(iterations)
        seconds, cpu = time.perf_counter() - start, worker.cpu_seconds() - cpu
        steps = iterations * rsl.STEPS * self.env.num_envs
        return {"seconds": seconds, "steps_per_s": steps / seconds, "cpu_us_per_step": 1e6 * cpu / steps, "rss_mb": worker.memory_mb(),
                "threads": threads, "iterations": iterations, "learning_rate": alg.learning_rate}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2, help="of the physics")
    parser.add_argument("--hidden", type=json.loads, default=[256, 128, 64], help="widths of the hidden layers, [256,128,64]")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    stream = worker.own_stdout()
    trainer = Trainer(args)
    seen = [trainer.env.seen[name].shape[1] for name in ("policy", "critic")]
    said = dict(rsl.settings(args.hidden, seen, trainer.env.num_actions), rows=args.rows, steps=rsl.STEPS,
                world="EnvPool %s %s" % (envpool.__version__, TASK))
    worker.serve(stream, {"settings": said}, lambda line: trainer.train(*map(int, line.split(" "))))


if __name__ == "__main__":
    main()
