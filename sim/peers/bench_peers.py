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
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EPISODE = 1000  # control steps until a row times out, on both sides
WARM_UP = 50  # control steps of the peer before its first measurement; clawsim bench has its own
WORK_LIMIT = 20.0  # %, by which the work of both sides may differ
REACH, AIM = 3.0, 4.0  # ratios that are wanted
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


class Failed(Exception):
    """A sentence for the person at the keyboard, and the exit code."""

    def __init__(self, said, code=1):
        super().__init__(said)
        self.code = code


def quartiles(values):
    """Median, lower and upper quartile; between two values by proportion."""
    if not values:
        raise ValueError("no values")
    if len(values) == 1:
        return {"median": values[0], "lower": values[0], "upper": values[0]}
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "lower": lower, "upper": upper}


def difference(ours, peer):
    """How much more ours is than the peer's, %; None where that has no number."""
    if peer == 0:
        return 0.0 if ours == 0 else None
    return 100.0 * (ours - peer) / peer


def percent(change):
    """A difference for a person."""
    return "no ratio" if change is None else "%+.1f %%" % change


def orders(pairs):
    """Which side is first in each pair."""
    return [("envpool", "clawsim") if i % 2 == 0 else ("clawsim", "envpool") for i in range(pairs)]


def ended_per_1000(measurement):
    """Episodes ended for each 1000 control steps of a row."""
    return 1000.0 * measurement["ended"] / (measurement["rows"] * measurement["steps"])


def fell_per_1000(measurement):
    return 1000.0 * measurement["fell"] / (measurement["rows"] * measurement["steps"])


def work(pairs):
    """What both sides did, over all pairs: for each figure peer's, ours and the difference in %."""
    figures = {}
    per_step = {"contacts": lambda m: m["contacts"], "ended_per_1000_steps": ended_per_1000, "fell_per_1000_steps": fell_per_1000}
    for name, of in per_step.items():
        peer, ours = (statistics.mean(of(p[side]) for p in pairs) for side in ("envpool", "clawsim"))
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
    for key in equal:
        peer, ours = settings["envpool"].get(key), settings["clawsim"].get(key)
        if peer is None or peer != ours:
            said.append("%s: EnvPool has %s, clawsim has %s" % (key, json.dumps(peer), json.dumps(ours)))
    return said


def summary(title, settings, pairs, equal):
    """The result of one setting."""
    figures = work(pairs)
    said = complaints(figures, settings, equal)
    return {
        "title": title, "ok": not said, "complaints": said, "pairs": len(pairs),
        "ratio": quartiles([p["ratio"] for p in pairs]), "reach": REACH, "aim": AIM,
        "cpu_ratio": quartiles([p["envpool"]["cpu_us_per_step"] / p["clawsim"]["cpu_us_per_step"] for p in pairs]),
        "envpool_steps_per_s": quartiles([p["envpool"]["steps_per_s"] for p in pairs]),
        "clawsim_steps_per_s": quartiles([p["clawsim"]["steps_per_s"] for p in pairs]),
        "envpool_rss_mb": max(p["envpool"]["rss_mb"] for p in pairs),
        "clawsim_rss_mb": max(p["clawsim"]["rss_mb"] for p in pairs),
        "work": figures,
    }


def last_json(text):
    """The object on the last line of text."""
    lines = text.strip().splitlines()
    try:
        said = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise Failed("no JSON on the last line of: %r" % text[-300:]) from None
    if not isinstance(said, dict):
        raise Failed("the last line is not a JSON object: %r" % lines[-1][:300])
    return said


class Peer:
    """The process with EnvPool's rows."""

    def __init__(self, args, config):
        # A session of its own: Ctrl-C is for this process, which then ends that one.
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.join(HERE, "envpool_go1.py"), "--rows", str(args.rows), "--threads", str(args.threads),
             "--policy", args.policy, "--config", json.dumps(config)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()  # it holds nothing but memory
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            raise Failed("envpool_go1.py ended with %d and said why above" % code)
        return last_json(line)

    def measure(self, steps):
        self.process.stdin.write("%d\n" % steps)
        self.process.stdin.flush()
        return self.answer()


def clawsim(args, flags, seed):
    """One measurement of `clawsim bench`."""
    command = [args.clawsim, "bench", "--rows", str(args.rows), "--threads", str(args.threads), "--steps", str(args.steps), "--policy",
               args.policy, "--seed", str(seed), "--json"] + flags
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, universal_newlines=True, check=False)
    if done.returncode != 0:
        raise Failed("%s ended with %d" % (" ".join(command), done.returncode), 3 if done.returncode == 3 else 1)
    return last_json(done.stdout)


def note(said):
    print(said, file=sys.stderr, flush=True)


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


def text(value):
    """A setting for a person."""
    if isinstance(value, float):
        return "%g" % value
    if isinstance(value, list):
        return " ".join(text(v) for v in value)
    if isinstance(value, dict):
        return ", ".join("%s %s" % (name, text(v)) for name, v in sorted(value.items()) if v != 0) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def print_settings(settings):
    wide = max(len(title) for _, title in SHOWN)
    print("  %-*s  EnvPool | clawsim" % (wide, ""))
    for key, title in SHOWN:
        peer, ours = (text(settings[side].get(key)) for side in ("envpool", "clawsim"))
        print("  %-*s  %s" % (wide, title, peer if peer == ours else "%s | %s" % (peer, ours)))


def print_summary(s):
    for side in ("envpool", "clawsim"):
        q = s[side + "_steps_per_s"]
        print("  %-8s %8.0f steps/s (quartiles %.0f .. %.0f), peak memory %.0f MiB" % (
            {"envpool": "EnvPool"}.get(side, side), q["median"], q["lower"], q["upper"], s[side + "_rss_mb"]))
    q = s["ratio"]
    print("  ratio    %8.2f (quartiles %.2f .. %.2f) over %d pairs; wanted %g, aim %g"
          % (q["median"], q["lower"], q["upper"], s["pairs"], REACH, AIM))
    q = s["cpu_ratio"]
    print("  the same by processors' time instead of the clock: %.2f (quartiles %.2f .. %.2f)" % (q["median"], q["lower"], q["upper"]))
    for name, title in (("contacts", "feet on the floor"), ("ended_per_1000_steps", "episodes ended per 1000 steps"),
                        ("fell_per_1000_steps", "falls per 1000 steps")):
        f = s["work"][name]
        print("  %-30s EnvPool %.3f, clawsim %.3f: %s" % (title, f["envpool"], f["clawsim"], percent(f["difference_percent"])))
    for said in s["complaints"]:
        print("  NOT THE SAME WORK: %s" % said)


def compare(args, name):
    """Runs one setting and returns its summary."""
    setting, pairs, settings = SETTINGS[name], [], {}
    print("\n(%s) %s" % (name, setting["title"]), flush=True)
    note("(%s) EnvPool makes its rows, about half a minute ..." % name)
    with Peer(args, setting["peer"]) as peer:
        settings["envpool"] = peer.answer()["settings"]
        peer.measure(WARM_UP)
        for number, order in enumerate(orders(args.pairs), 1):
            pair = {"order": order}
            for side in order:
                pair[side] = peer.measure(args.steps) if side == "envpool" else clawsim(args, setting["clawsim"], number)
            pair["ratio"] = pair["clawsim"]["steps_per_s"] / pair["envpool"]["steps_per_s"]
            if number == 1:
                settings["clawsim"] = our_settings(pair["clawsim"])
                print_settings(settings)
            pairs.append(pair)
            print("  pair %d, %s first: EnvPool %.0f, clawsim %.0f steps/s, ratio %.2f" % (
                number, {"envpool": "EnvPool"}.get(order[0], order[0]), pair["envpool"]["steps_per_s"], pair["clawsim"]["steps_per_s"],
                pair["ratio"]), flush=True)
    found = summary(setting["title"], settings, pairs, setting["equal"])
    print_summary(found)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, name + ".json"), "w", encoding="utf-8") as f:
        json.dump({"machine": machine(), "arguments": vars(args), "settings": settings, "pairs": pairs, "summary": found}, f, indent=1)
        f.write("\n")
    return found


def machine():
    """Processor, cores and load."""
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}


def check(args):
    """Refuses what cannot work before half a minute is spent on it."""
    for name, value in (("--rows", args.rows), ("--threads", args.threads), ("--pairs", args.pairs), ("--steps", args.steps)):
        if value < 1:
            raise Failed("%s %d: want 1 or more" % (name, value), 2)
    if args.steps % EPISODE:
        raise Failed("--steps %d: want a multiple of %d, an episode: rows begin together and time out together" % (args.steps, EPISODE), 2)
    unknown = [name for name in args.settings.split(",") if name not in SETTINGS]
    if unknown:
        raise Failed("--settings %s: %r is not one of %s" % (args.settings, unknown[0], ", ".join(SETTINGS)), 2)
    for name, path in (("--policy", args.policy), ("--clawsim", args.clawsim)):
        if not os.path.isfile(path):
            raise Failed("%s %s: no such file" % (name, path), 3)
    with open("/proc/meminfo", encoding="ascii") as f:
        free = next(int(line.split()[1]) for line in f if line.startswith("MemAvailable")) / 1024
    need = PEER_MB + PEER_ROW_MB * args.rows
    if free < need:
        raise Failed("EnvPool needs about %.0f MiB for %d rows, %.0f are free: fewer --rows" % (need, args.rows, free), 3)


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
    here = machine()
    print("EnvPool Go1JoystickFlatTerrain-v1 and clawsim: %d rows, %d threads each, %s, %d control steps a measurement"
          % (args.rows, args.threads, os.path.basename(args.policy), args.steps))
    print("%s, %d cores, load %.2f" % (here["processor"], here["cores"], here["load"]), flush=True)
    if here["load"] > 0.5:
        note("note: the load is %.2f; on a machine that does nothing else both sides are faster" % here["load"])
    found = {name: compare(args, name) for name in args.settings.split(",")}
    ok = all(s["ok"] for s in found.values())
    print(json.dumps({"ok": ok, "rows": args.rows, "threads": args.threads, "steps": args.steps, "machine": here, "settings": found}))
    return 0 if ok else 1


def main(argv):
    try:
        return run(parse(argv))
    except Failed as failed:
        note("bench-peers: %s" % failed)
        print(json.dumps({"ok": False, "error": str(failed), "exit_code": failed.code}))
        return failed.code
    except KeyboardInterrupt:
        note("bench-peers: interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
