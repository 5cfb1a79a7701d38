"""clawlearn against rsl-rl-lib: the same learning, alternately on one machine.

    bench_learning.py ─┬─ rsl_update.py, rsl_train.py             one process for all pairs, idle while the other side is timed
                       └─ clawlearn bench update, bench train     one process for each measurement

`make bench-peers` runs it in a virtual environment of its own. Two things are compared, each in pairs that alternate (sim/peers/pairs.py):

    update   the epochs of minibatches of PPO, from the same parameters and samples, in the same order, with the same rule of the
             learning rate. What the parameters become must agree, else the comparison fails (exit 1).
    train    the whole training loop, each side in its own simulator: EnvPool's Go1, and the model and world in which clawlearn trains.
             Networks, rows, steps, epochs and minibatches are equal; what is not is printed.

The peer computes with 1 and with 2 threads, once each before the pairs, and with the faster number in them. Output is a table; its last
line is JSON; out/peers/{update,train}.json keep every measurement. Python 3.8 or later, standard library only.
"""

import argparse
import array
import json
import math
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "sim", "peers"))
import pairs  # noqa: E402

SIDES = (pairs.Side("rsl_rl", "rsl-rl-lib"), pairs.Side("clawlearn", "clawlearn"))
AGREE = 1e-3  # by which parameters after an update may differ
AGREE_RELATIVE = 1e-3  # the same of their difference to the peer's, over how far those moved (Euclidean norms)
SAMPLE_BYTES = 8000  # of the peer's memory, for each sample of an update, with all that autograd keeps of a minibatch
ROW_MB, TORCH_MB = 52, 1500  # of the peer's memory, MiB: for each of EnvPool's rows, for the rest

SETTINGS = {
    "update": {
        "title": "PPO update", "reach": 1.25, "aim": 1.35, "hidden": [512, 256, 128],
        "equal": ["samples", "epochs", "minibatches", "actor", "critic", "observed", "actions", "clip", "value_clip", "value_weight",
                  "entropy_weight", "max_grad_norm", "clip_apart", "rate", "min_rate", "max_rate", "kl_target", "mirror"],
    },
    "train": {
        "title": "whole training loop", "reach": 2.5, "aim": 3.0, "hidden": [256, 128, 64],
        "equal": ["rows", "steps", "epochs", "minibatches", "actor", "critic", "actions", "physics_threads"],
    },
}
# Rows of the table of settings: key, title.
SHOWN = [
    ("library", "made with"), ("world", "simulated"), ("samples", "samples"), ("rows", "rows"), ("steps", "control steps an iteration"),
    ("epochs", "epochs"), ("minibatches", "minibatches of an epoch"), ("actor", "hidden layers of the actor"),
    ("critic", "of the critic"), ("observed", "numbers that both see"), ("actions", "actions"), ("computed", "computed in"),
    ("stored", "observations and actions stored in"), ("threads", "threads"), ("physics_threads", "threads of the physics"), ("rate", "learning rate at first"), ("min_rate", "at least"),
    ("max_rate", "at most"), ("kl_target", "divergence it is steered to"), ("clip", "clip of ratios"), ("value_clip", "clip of values"),
    ("value_weight", "weight of values"), ("entropy_weight", "weight of entropy"), ("max_grad_norm", "norm of gradients"),
    ("clip_apart", "of actor and critic apart"), ("mirror", "samples mirrored"),
]


def read_parameters(path):
    """The F32 arrays of a safetensors file, by name."""
    try:
        with open(path, "rb") as f:
            length = int.from_bytes(f.read(8), "little")
            header = json.loads(f.read(min(length, 1 << 20)))
            data = f.read()
        found = {}
        for name, entry in header.items():
            if name != "__metadata__" and entry["dtype"] == "F32":
                begin, end = entry["data_offsets"]
                if not 0 <= begin <= end <= len(data):
                    raise ValueError("%s lies outside" % name)
                found[name] = array.array("f", data[begin:end])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise pairs.Failed("%s is no safetensors file: %s" % (path, e)) from None
    return found


def agreement(before, peer, ours):
    """How far our parameters are from the peer's: the greatest difference and where it is, and relative to how far the peer's moved from
    those before, by norms."""
    if set(peer) != set(ours) or any(len(peer[name]) != len(ours[name]) for name in peer):
        raise pairs.Failed("parameters differ in kind: %s against %s" % (
            {name: len(p) for name, p in sorted(peer.items())}, {name: len(p) for name, p in sorted(ours.items())}))
    worst, where, moved_most, off, moved = 0.0, "", 0.0, 0.0, 0.0
    for name, theirs in sorted(peer.items()):
        for b, p, o in zip(before[name], theirs, ours[name]):
            d, m = abs(o - p), abs(p - b)
            if not d <= worst:  # or no number
                worst, where = d, name
            moved_most = max(moved_most, m)
            off += d * d
            moved += m * m
    return {"max_abs": worst, "where": where, "moved_max_abs": moved_most, "relative": math.sqrt(off / moved) if moved > 0 else math.inf}


def disagreements(a):
    """A sentence where an agreement does not hold."""
    if a["max_abs"] <= AGREE and a["relative"] <= AGREE_RELATIVE:
        return []
    return ["parameters after one update: %s differs by %.2g, all by %.2g of how far they moved, limits %g and %g"
            % (a["where"], a["max_abs"], a["relative"], AGREE, AGREE_RELATIVE)]


def other_rates(peer, ours):
    """Sentences on learning rates that both sides' minibatches were not alike made with."""
    if len(peer) != len(ours):
        return ["learning rates: rsl-rl-lib has %d, clawlearn %d" % (len(peer), len(ours))]
    for number, (p, o) in enumerate(zip(peer, ours), 1):
        if not math.isclose(p, o, rel_tol=1e-6):
            return ["learning rate of minibatch %d: rsl-rl-lib has %.3g, clawlearn %.3g" % (number, p, o)]
    return []


def set_flags(settings):
    """Our flags for the peer's settings: numbers of algo.ppo, widths of layers."""
    keys = {"epochs": ("epochs",), "minibatches": ("minibatches",), "clip": ("clip",), "value_clip": ("value_clip",),
            "value_weight": ("value_weight",), "entropy_weight": ("entropy_weight", "entropy_end"), "max_grad_norm": ("max_grad_norm",),
            "rate": ("rate",), "min_rate": ("min_rate",), "max_rate": ("max_rate",), "kl_target": ("kl_target", "kl_end")}
    flags = ["--set", "algo.net.actor=%s" % json.dumps(settings["actor"]), "--set", "algo.net.critic=%s" % json.dumps(settings["critic"])]
    for key, names in keys.items():
        for name in names:
            flags += ["--set", "algo.ppo.%s=%r" % (name, settings[key])]
    return flags


def our_settings(said):
    """What clawlearn bench says of itself, in the words of the peer."""
    found = dict(said["settings"], stored="fp16, the same numbers" if said["what"] == "update" else "fp16", computed="fp32")
    if "world" in found:
        found["world"] = "clawlearn, world %s, physics %s" % (found["world"], found.pop("physics"))
    for key in ("library", "epochs", "minibatches", "actor", "critic", "observed", "actions", "threads"):
        found[key] = said[key]
    if said["what"] == "update":
        found["samples"] = said["samples"] // said["iterations"]
    else:
        found["rows"], found["steps"], found["physics_threads"] = said["rows"], said["steps"], said["threads"]
    return found


def clawlearn(args, what, iterations, flags):
    """One measurement of `clawlearn bench`."""
    said = pairs.program([args.clawlearn, "bench", what, "--json", "--threads", str(args.threads), "--iterations", str(iterations)] + flags)
    said["cpu_us_per_step"] = 1e6 * said["cpu_seconds"] / said["samples"]
    return said


def best_threads(measure):
    """The number of threads with which the peer is fastest, and the steps per second of each."""
    speeds = {threads: measure(threads)["steps_per_s"] for threads in (1, 2)}
    best = max(speeds, key=speeds.get)
    print("  rsl-rl-lib with 1 thread %.0f steps/s, with 2 %.0f: compared with %d" % (speeds[1], speeds[2], best), flush=True)
    return best, speeds


def both_settings(peer, threads, ours):
    """Settings of both sides, by their keys: what the worker said, and one measurement of ours. Prints them."""
    settings = {SIDES[0].key: dict(peer, threads=threads, computed="fp32"), SIDES[1].key: our_settings(ours)}
    pairs.print_settings(SIDES, settings, [row for row in SHOWN if any(row[0] in s for s in settings.values())])
    return settings


def finish(args, name, settings, measured, complaints, more):
    """Prints and keeps a comparison's result."""
    setting = SETTINGS[name]
    found = pairs.summary(SIDES, setting["title"], measured, complaints + pairs.unequal(SIDES, settings, setting["equal"]),
                          setting["reach"], setting["aim"])
    found.update(more)
    pairs.print_summary(SIDES, found)
    pairs.keep(args.out, name, {"machine": pairs.machine(), "arguments": vars(args), "settings": settings, "pairs": measured,
                                "summary": found})
    return found


def compare_update(args, folder):
    """The update, and whether both sides' parameters agree after it."""
    data, theirs, ours = (os.path.join(folder, name + ".safetensors") for name in ("before", "peer", "ours"))
    arguments = ["--data", data, "--samples", str(args.samples), "--hidden", json.dumps(args.hidden or SETTINGS["update"]["hidden"])]
    settings, agreed, complaints = {}, [], []
    pairs.note("(update) rsl-rl-lib makes weights and samples ...")
    with pairs.Worker(os.path.join(HERE, "rsl_update.py"), arguments) as worker:
        said = worker.answer()["settings"]
        before = read_parameters(data)
        worker.ask("2 " + theirs)  # touches all memory once
        threads, speeds = best_threads(lambda n: worker.ask("%d %s" % (n, theirs)))
        # Bounds of the deviation that neither side comes near to.
        flags = ["--data", data, "--result", ours, "--set", "algo.net.min_std=1e-5", "--set", "algo.net.max_std=100"] + set_flags(said)

        def each(number, pair):
            if number == 1:
                settings.update(both_settings(said, threads, pair["clawlearn"]))
            agreed.append(agreement(before, read_parameters(theirs), read_parameters(ours)))
            complaints.extend(disagreements(agreed[-1]) + other_rates(pair["rsl_rl"]["learning_rates"], pair["clawlearn"]["learning_rates"]))

        measured = pairs.in_pairs(SIDES, {"rsl_rl": lambda _: worker.ask("%d %s" % (threads, theirs)),
                                          "clawlearn": lambda _: clawlearn(args, "update", 1, flags)}, args.pairs, each)
    worst = max(agreed, key=lambda a: a["max_abs"])
    found = finish(args, "update", settings, measured, complaints, {"agreement": worst, "peer_steps_per_s_by_threads": speeds})
    print("  parameters after one update: %s differs most, by %.2g (limit %g); they moved by up to %.2g; all differences are %.2g of the way "
          "(limit %g)" % (worst["where"], worst["max_abs"], AGREE, worst["moved_max_abs"], worst["relative"], AGREE_RELATIVE))
    pairs.print_complaints(found)
    return found


def compare_train(args, _):
    """The training loop."""
    arguments = ["--rows", str(args.rows), "--threads", str(args.threads), "--hidden", json.dumps(args.hidden or SETTINGS["train"]["hidden"])]
    settings = {}
    pairs.note("(train) EnvPool makes its rows, about half a minute ...")
    with pairs.Worker(os.path.join(HERE, "rsl_train.py"), arguments) as worker:
        said = worker.answer()["settings"]
        threads, speeds = best_threads(lambda n: worker.ask("%d %d" % (n, args.iterations)))
        flags = ["--rows", str(args.rows), "--set", "algo.steps=%d" % said["steps"]] + set_flags(said)

        def each(number, pair):
            if number == 1:
                settings.update(both_settings(dict(said, physics_threads=args.threads), threads, pair["clawlearn"]))

        measured = pairs.in_pairs(SIDES, {"rsl_rl": lambda _: worker.ask("%d %d" % (threads, args.iterations)),
                                          "clawlearn": lambda _: clawlearn(args, "train", args.iterations, flags)}, args.pairs, each)
    found = finish(args, "train", settings, measured, [], {"peer_steps_per_s_by_threads": speeds})
    pairs.print_complaints(found)
    return found


def check(args):
    """Refuses what cannot work before time is spent on it."""
    chosen = args.settings.split(",")
    memory = max(TORCH_MB + (SAMPLE_BYTES * args.samples >> 20 if "update" in chosen else 0),
                 TORCH_MB + (ROW_MB * args.rows if "train" in chosen else 0))
    pairs.check([("--pairs", args.pairs), ("--threads", args.threads), ("--samples", args.samples), ("--rows", args.rows),
                 ("--iterations", args.iterations)], [("--clawlearn", args.clawlearn)], args.settings, tuple(SETTINGS), memory,
                "rsl-rl-lib, %d samples and EnvPool's %d rows" % (args.samples, args.rows))
    if args.samples % 96:
        raise pairs.Failed("--samples %d: want a multiple of 96: 24 steps of rows, 4 minibatches" % args.samples, 2)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2, help="ours, and those of EnvPool's physics")
    parser.add_argument("--samples", type=int, default=98304, help="of an update, a multiple of 96")
    parser.add_argument("--rows", type=int, default=256, help="of the training loop")
    parser.add_argument("--iterations", type=int, default=20, help="of the training loop in each measurement")
    parser.add_argument("--hidden", type=json.loads, default=None, help="widths of hidden layers instead of [512,256,128] and [256,128,64]")
    parser.add_argument("--settings", default=",".join(SETTINGS), help="what to compare, with commas")
    parser.add_argument("--clawlearn", default="bin/clawlearn")
    parser.add_argument("--out", default="out/peers", help="folder for every measurement")
    return parser.parse_args(argv)


def run(args):
    """Compares and returns the exit code."""
    check(args)
    print("rsl-rl-lib and clawlearn")
    here = pairs.print_machine()
    found = {}
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
        for name in args.settings.split(","):
            print("\n(%s) %s" % (name, SETTINGS[name]["title"]), flush=True)
            found[name] = {"update": compare_update, "train": compare_train}[name](args, folder)
    ok = all(s["ok"] for s in found.values())
    print(json.dumps({"ok": ok, "machine": here, "settings": found}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(pairs.main(sys.argv[1:], parse, run))
