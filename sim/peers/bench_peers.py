"""clawsim against EnvPool's Go1: the same robot, the same policy, the same amount of work, alternately on one machine.

    bench_peers.py ─┬─ envpool_go1.py      one process for all pairs, idle while the other side is timed
                    └─ clawsim bench       one process for each measurement

`make bench-peers` runs it in a virtual environment of its own. Two settings are compared, SETTINGS says how:

    a   the peer's physics and the peer's world
    b   the model and the world in which clawsim trains, under the same commands and noise as the peer

In each, pairs of measurements alternate, every second one in the opposite order. In a measurement every row does as many control
steps as an episode has, or a multiple, so that each row times out as often on both sides. Both run the policy on their own
observations and time only the environment's step. The ratio of a pair is of control steps per second; its median and quartiles over
the pairs are the result. The ratio of the processors' time is shown beside it: other programs that run meanwhile change it less.

The comparison fails (exit 1) when both sides did not do the same work: contacts per robot or ended episodes differ by more than 20 %,
or a setting that should be equal is not.

Output is a table; its last line is JSON; out/peers/{a,b}.json keep every measurement. Python 3.8 or later, standard library only.
"""

import argparse
import json
import math
import os
import statistics
import sys

import pairs

HERE = os.path.dirname(os.path.abspath(__file__))
EPISODE = 1000  # control steps until a row times out, on both sides
WARM_UP = 50  # control steps of the peer before its first measurement; clawsim bench has its own
WORK_LIMIT = 20.0  # %, by which the work of both sides may differ
REACH, AIM = 3.0, 4.0  # ratios that are wanted
SIDES = (pairs.Side("envpool", "EnvPool"), pairs.Side("clawsim", "clawsim"))
PEER_ROW_MB, PEER_MB = 52, 800  # memory of the peer, MiB

# What each setting asks of both sides. "equal" are the settings that both sides must report alike.
SETTINGS = {
    "a": {
        "title": "the peer's physics and world",
        "clawsim": ["--physics", "peer", "--world", os.path.join(HERE, "world_peer.json")],
        "peer": {},
        "equal": ["timestep_s", "substeps", "iterations", "ls_iterations", "solver", "cone", "integrator", "implicit_damping",
                  "colliding_geoms", "friction", "kp", "kd", "commands_max", "noise", "episode_steps",
                  "policy_sha256"],
    },
    "b": {
        "title": "clawsim's training model and world",
        "clawsim": ["--physics", "lean", "--world", "walk"],
        "peer": {"command_a0": 1.0, "command_a1": 0.5, "command_a2": 1.0, "noise_joint_pos": 0.01, "noise_linvel": 0.0},
        "equal": ["kp", "kd", "commands_max", "noise", "episode_steps", "policy_sha256"],
    },
}
# Rows of the table of settings: key, title.
SHOWN = [
    ("mujoco", "MuJoCo"), ("timestep_s", "physics step, s"), ("substeps", "physics steps a control step"), ("solver", "solver"),
    ("iterations", "its iterations"), ("ls_iterations", "of its line search"), ("cone", "friction cone"), ("integrator", "integrator"),
    ("implicit_damping", "implicit damping"), ("colliding_geoms", "geoms that meet the floor"),
    ("joint_friction_rows", "constraints for joint friction"), ("friction", "floor friction"), ("kp", "kp, N*m/rad"),
    ("kd", "kd, N*m*s/rad"), ("commands_max", "commands up to, m/s, m/s, rad/s"),
    ("commands_new", "new commands"), ("start", "start"), ("noise", "noise"), ("varied", "varied by episode"),
    ("pushes", "pushes"), ("episode_steps", "control steps of an episode"), ("fall", "fall"), ("observations", "observed numbers"),
]


def difference(ours, peer):
    """How much more ours is than the peer's, %; None where that has no number."""
    if peer == 0:
        return 0.0 if ours == 0 else None
    return 100.0 * (ours - peer) / peer


def percent(change):
    """A difference for a person."""
    return "no ratio" if change is None else "%+.1f %%" % change


def ended_per_1000(measurement):
    """Episodes ended for each 1000 control steps of a row."""
    return 1000.0 * measurement["ended"] / (measurement["rows"] * measurement["steps"])


def fell_per_1000(measurement):
    return 1000.0 * measurement["fell"] / (measurement["rows"] * measurement["steps"])


def work(measured):
    """What both sides did, over all pairs: for each figure peer's, ours and the difference in %."""
    figures = {}
    per_step = {"contacts": lambda m: m["contacts"], "ended_per_1000_steps": ended_per_1000, "fell_per_1000_steps": fell_per_1000}
    for name, of in per_step.items():
        peer, ours = (statistics.mean(of(p[side.key]) for p in measured) for side in SIDES)
        figures[name] = {"envpool": peer, "clawsim": ours, "difference_percent": difference(ours, peer)}
    return figures


def complaints(figures, settings, equal):
    """Sentences on work that was not the same."""
    said = []
    for name in ("contacts", "ended_per_1000_steps"):
        f = figures[name]
        change = f["difference_percent"]
        if change is None or not abs(change) <= WORK_LIMIT:
            said.append("%s: EnvPool %.3f, clawsim %.3f: %s, limit %.0f %%"
                        % (name, f["envpool"], f["clawsim"], percent(change), WORK_LIMIT))
    return said + pairs.unequal(SIDES, settings, equal)


def clawsim(args, flags, seed):
    """One measurement of `clawsim bench`."""
    return pairs.program([args.clawsim, "bench", "--rows", str(args.rows), "--threads", str(args.threads), "--steps", str(args.steps),
                          "--policy", args.policy, "--seed", str(seed), "--json"] + flags)


def spread(pair):
    """A range as a number where it is one."""
    return pair[0] if pair[0] == pair[1] else pair


def between(pair):
    """A range for a person."""
    return "%g to %g" % tuple(pair)


def our_settings(said):
    """What `clawsim bench` says of itself, in the words of envpool_go1.py."""
    world, found = said["world"], dict(said["settings"])
    commands, falls, pushes, start = world["commands"], world["falls"], world["pushes"], world["start"]
    vary = {name: spread(v) if isinstance(v, list) else v for name, v in world["vary"].items()}
    found["friction"] = vary.pop("friction")
    vary.pop("latency_step", None)  # how latency is drawn, not that it is
    varied = {name: v for name, v in vary.items() if v not in (0, False) and not (name in ("kp", "kd", "strength") and v == 1)}
    if commands["min"] == [-c for c in commands["max"]]:
        found["commands_max"] = commands["max"]
    found.update({
        "commands_new": "after %s s, uniform: new ones, with %g all 0"
                        % (between(commands["every_seconds"]), commands["zero_share"]),
        "noise": world["noise"],
        "varied": varied or "nothing",
        "pushes": "%g m/s after %s s" % (pushes["velocity"], between(pushes["every_seconds"])) if pushes["velocity"] else "none",
        "start": "joints off by up to %g rad, trunk up to %g m/s forward and sideways" % (start["joint"], start["velocity"]),
        "episode_steps": round(world["episode_seconds"] / (found["timestep_s"] * found["substeps"])),
        "fall": "trunk below %g m, tilt over %.0f degrees, knee below %g m"
                % (falls["min_height"], math.degrees(falls["max_tilt"]), falls["min_knee"]),
    })
    return found


def print_work(figures):
    for name, title in (("contacts", "feet on the floor"), ("ended_per_1000_steps", "episodes ended per 1000 steps"),
                        ("fell_per_1000_steps", "falls per 1000 steps")):
        f = figures[name]
        print("  %-30s EnvPool %.3f, clawsim %.3f: %s" % (title, f["envpool"], f["clawsim"], percent(f["difference_percent"])))


def compare(args, name):
    """Runs one setting and returns its summary."""
    setting, settings = SETTINGS[name], {}
    print("\n(%s) %s" % (name, setting["title"]), flush=True)
    pairs.note("(%s) EnvPool makes its rows, about half a minute ..." % name)
    arguments = ["--rows", str(args.rows), "--threads", str(args.threads), "--policy", args.policy, "--config", json.dumps(setting["peer"])]
    with pairs.Worker(os.path.join(HERE, "envpool_go1.py"), arguments) as worker:
        settings["envpool"] = worker.answer()["settings"]
        worker.ask(str(WARM_UP))

        def each(number, pair):
            if number == 1:
                settings["clawsim"] = our_settings(pair["clawsim"])
                pairs.print_settings(SIDES, settings, SHOWN)

        measured = pairs.in_pairs(SIDES, {"envpool": lambda _: worker.ask(str(args.steps)),
                                          "clawsim": lambda number: clawsim(args, setting["clawsim"], number)}, args.pairs, each)
    figures = work(measured)
    found = pairs.summary(SIDES, setting["title"], measured, complaints(figures, settings, setting["equal"]), REACH, AIM)
    found["work"] = figures
    pairs.print_summary(SIDES, found)
    print_work(figures)
    pairs.print_complaints(found)
    pairs.keep(args.out, name, {"machine": pairs.machine(), "arguments": vars(args), "settings": settings, "pairs": measured,
                                "summary": found})
    return found


def check(args):
    """Refuses what cannot work before half a minute is spent on it."""
    pairs.check([("--rows", args.rows), ("--threads", args.threads), ("--pairs", args.pairs), ("--steps", args.steps)],
                [("--policy", args.policy), ("--clawsim", args.clawsim)], args.settings, tuple(SETTINGS),
                PEER_MB + PEER_ROW_MB * args.rows, "EnvPool's %d rows" % args.rows)
    if args.steps % EPISODE:
        raise pairs.Failed("--steps %d: want a multiple of %d, an episode: rows begin together and time out together" % (args.steps, EPISODE), 2)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=EPISODE, help="control steps of a row in each measurement, a multiple of %d" % EPISODE)
    parser.add_argument("--settings", default=",".join(SETTINGS), help="which to compare, with commas")
    parser.add_argument("--policy", required=True, help="go1_policy.onnx")
    parser.add_argument("--clawsim", default="bin/clawsim")
    parser.add_argument("--out", default="out/peers", help="folder for every measurement")
    return parser.parse_args(argv)


def run(args):
    """Compares and returns the exit code."""
    check(args)
    print("EnvPool Go1JoystickFlatTerrain-v1 and clawsim: %d rows, %d threads each, %s, %d control steps a measurement"
          % (args.rows, args.threads, os.path.basename(args.policy), args.steps))
    here = pairs.print_machine()
    found = {name: compare(args, name) for name in args.settings.split(",")}
    ok = all(s["ok"] for s in found.values())
    print(json.dumps({"ok": ok, "rows": args.rows, "threads": args.threads, "steps": args.steps, "machine": here, "settings": found}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(pairs.main(sys.argv[1:], parse, run))
