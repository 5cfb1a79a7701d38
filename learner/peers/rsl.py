"""rsl-rl-lib's side of bench_learning.py: how it learns in both comparisons, and what it says of itself.

The numbers are rsl-rl-lib's own defaults, but for the deviation of the actions, which is learnt as its logarithm here as there.
"""

import os
import sys
from importlib.metadata import version

import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sim", "peers"))
import worker  # noqa: E402, F401

PPO = {
    "num_learning_epochs": 5, "num_mini_batches": 4, "clip_param": 0.2, "gamma": 0.99, "lam": 0.95, "value_loss_coef": 1.0,
    "entropy_coef": 0.01, "learning_rate": 1e-3, "max_grad_norm": 1.0, "use_clipped_value_loss": True, "schedule": "adaptive",
    "desired_kl": 0.01,
}
MIN_RATE, MAX_RATE = 1e-5, 1e-2  # PPO.update's bounds of the learning rate
STEPS = 24  # of a row in an iteration


def network(hidden):
    """The arguments of an MLPModel."""
    return {"hidden_dims": hidden, "activation": "elu", "obs_normalization": False}


def spread():
    """Of the actions."""
    return {"class_name": "GaussianDistribution", "init_std": 0.7, "std_type": "log"}


def settings(hidden, observed, actions):
    """In the words of clawlearn bench."""
    return {
        "library": "rsl-rl-lib %s, torch %s" % (version("rsl-rl-lib"), torch.__version__), "actor": hidden, "critic": hidden,
        "observed": observed, "actions": actions, "epochs": PPO["num_learning_epochs"], "minibatches": PPO["num_mini_batches"],
        "stored": "fp32", "clip": PPO["clip_param"], "value_clip": PPO["clip_param"], "value_weight": PPO["value_loss_coef"],
        "entropy_weight": PPO["entropy_coef"], "max_grad_norm": PPO["max_grad_norm"], "clip_apart": True, "rate": PPO["learning_rate"],
        "min_rate": MIN_RATE, "max_rate": MAX_RATE, "kl_target": PPO["desired_kl"], "mirror": False,
    }
