"""Does on-policy distillation (OPD) pay? PPO with a teacher beside it against PPO alone, at equal time of training.

    experiment.py ─▶ clawlearn train, one run after the other ─▶ OUT/NAME-SEED/      run folders
                  ─▶ clawlearn compare                        ─▶ OUT/opd.svg, tables in Markdown on standard output

`make opd-experiment` runs it. Every way to train has MINUTES of training in all, for each seed: where a teacher had to be trained first,
its share comes off the student's. Evaluations take none of it. A second table gives the teacher away: what students reached in their own
share, beside PPO alone after the same time; that is where OPD should win.

It may be ended at any moment and started again: a run that is finished is not run again, one that is not goes on. OUT/plan.json keeps
what was asked; another question wants another OUT. Python 3.8 or later, standard library only.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys

# The share of the time that a teacher which has to be trained takes.
TEACHER_SHARE = 0.5
MIXES = ["0", "0.3"]
# The gait and a privileged teacher show the way at first: they drive at most the first 60 iterations, and weigh at most in the first 100
# (clawlearn's defaults but for the share). A snapshot is never better than the student: both stay, as in preset origin.
FADES = ["algo.opd.mix.start={mix}"]
STAYS = ["algo.opd.mix.start={mix}", "algo.opd.mix.end={mix}", "algo.opd.weight.start=0.1", "algo.opd.weight.end=0.1"]
LARGE = "[512,256,128]"
SMALL = "[64,64]"
# Evaluations in a run of all the MINUTES. They take no training time, but half as long again.
EVALUATIONS = 6


def way(name, preset, share=1.0, teacher=None, sets=()):
    """One way to train. Its student has share of the time; teacher is the name of the way whose run teaches it."""
    return {"name": name, "preset": preset, "share": share, "teacher": teacher, "sets": list(sets)}


def taught(name, kind, mix, fades, **more):
    """A way whose student begins from random weights and has a teacher of that kind."""
    sets = ["algo.opd.teacher=" + kind] + [s.format(mix=mix) for s in fades] + more.pop("sets", [])
    return way(name, "plain", sets=sets, **more)


def equal_time():
    """PPO alone, also after a cloned trot, and every teacher with every mix. A student begins from random weights."""
    ways = [way("ppo", "plain"), way("ppo-cloned", "walk"), way("teacher", "walk", TEACHER_SHARE, sets=["algo.net.group=critic"])]
    for mix in MIXES:
        ways.append(taught("privileged-mix" + mix, "privileged", mix, FADES, share=1 - TEACHER_SHARE, teacher="teacher"))
    for mix in MIXES:
        ways.append(taught("gait-mix" + mix, "gait", mix, FADES))
    for mix in MIXES:
        ways.append(taught("snapshot-mix" + mix, "snapshot", mix, STAYS))
    return ways


def large_to_small():
    """A large network, trained for the whole time, teaches a small one of the same observations."""
    small = ["algo.net.actor=" + SMALL, "algo.net.critic=" + SMALL]
    return [
        way("large", "walk", sets=["algo.net.actor=" + LARGE, "algo.net.critic=" + LARGE]),
        way("small-ppo", "plain", 1 - TEACHER_SHARE, sets=small),
        taught("small-taught", "privileged", "0.3", FADES, share=1 - TEACHER_SHARE, teacher="large", sets=["algo.opd.group=policy"] + small),
    ]


PARTS = {"equal": equal_time, "large": large_to_small}
# In each part, the ways that are compared after the student's own share of the time, with the teacher given.
GIVEN = {"equal": ["ppo", "ppo-cloned"] + ["privileged-mix" + mix for mix in MIXES], "large": ["small-ppo", "small-taught"]}


class Failed(Exception):
    """What ends the experiment, in words for a person."""


class Signals:
    """What asks the experiment to end: Ctrl-C, SIGTERM and SIGHUP, but for those that were ignored when it began (nohup).

    Each is told to the child under way, so that no child is left behind: on the first clawlearn saves and evaluates, on the second it ends
    at once. Where there is no child it is a KeyboardInterrupt.
    """

    def __init__(self):
        self.asked = False  # to end
        self.running = False  # a child, or it is about to
        self.child = None

    @contextlib.contextmanager
    def watched(self):
        before = {}
        for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(s) != signal.SIG_IGN:
                before[s] = signal.signal(s, self.on)
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)

    def on(self, *_):
        self.asked = True
        if not self.running:
            raise KeyboardInterrupt
        if self.child:
            self.tell()

    def tell(self):
        # SIGINT may be ignored here, and then it is there.
        with contextlib.suppress(ProcessLookupError):
            self.child.send_signal(signal.SIGTERM)

    def run(self, command, log):
        """Runs a child to its end; gives its exit status and what it said."""
        self.running = True
        try:
            # In a session of its own the child gets signals from here alone, not a second one from the terminal.
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, universal_newlines=True, start_new_session=True) as child:
                self.child = child
                if self.asked:  # while it began
                    self.tell()
                out, _ = child.communicate()
        finally:
            self.child, self.running = None, False
        if self.asked:
            raise KeyboardInterrupt
        return child.returncode, out


def plan(options):
    """The runs in their order: a teacher before its students."""
    runs = []
    for seed in options.seeds:
        for part in options.parts:
            for w in PARTS[part]():
                sets = list(w["sets"])
                if w["teacher"]:
                    sets.append("algo.opd.file=" + os.path.join(options.out, "%s-%d" % (w["teacher"], seed)))
                runs.append({"name": "%s-%d" % (w["name"], seed), "way": w["name"], "seed": seed, "preset": w["preset"],
                             "minutes": round(options.minutes * w["share"], 6),
                             "sets": sets + ["eval.every_seconds=%g" % (60 * options.minutes / EVALUATIONS)] + options.set})
    return runs


def keep_plan(options, runs):
    """Writes what was asked for, or refuses a folder that was asked something else."""
    path = os.path.join(options.out, "plan.json")
    os.makedirs(options.out, exist_ok=True)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            before = {r["name"]: r for r in json.load(f)}
        for r in runs:
            if before.get(r["name"], r) != r:
                raise Failed("%s holds %s with other settings: name another --out" % (options.out, r["name"]))
        runs = list(before.values()) + [r for r in runs if r["name"] not in before]
    write(path, json.dumps(runs, indent=1) + "\n")


def write(path, text):
    """Puts the whole text at path or nothing."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)


def train(options, r, head, signals):
    """One run to its end, unless it is finished."""
    folder = os.path.join(options.out, r["name"])
    done = folder + ".json"
    if os.path.exists(done):
        return
    command = [options.clawlearn, "train", "--out", folder, "--json"]
    if os.path.exists(os.path.join(folder, "meta.json")):
        command.append("--resume")
    else:
        command += ["--preset", r["preset"], "--seed", str(r["seed"]), "--minutes", str(r["minutes"])]
        for s in ["keep.clip=none"] + r["sets"]:  # rendering takes cores from the run that follows
            command += ["--set", s]
    print("%s %s: %g min of training" % (head, r["name"], r["minutes"]), file=sys.stderr, flush=True)
    with open(folder + ".log", "a", encoding="utf-8") as log:
        code, out = signals.run(command, log)
    lines = out.splitlines()
    if code != 0 or not lines:
        raise Failed("%s: exit %d, see %s.log" % (r["name"], code, folder))
    if json.loads(lines[-1])["seconds"] < 60 * r["minutes"]:
        raise Failed("%s was ended early: start again to go on" % r["name"])
    write(done, lines[-1] + "\n")


def nearest(folder, seconds):
    """The evaluation of a run that is nearest to so many seconds of its training."""
    best = None
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as f:
        for line in f:
            values = json.loads(line)
            if "Eval/fall_rate" in values and (best is None or abs(values["Perf/train_seconds"] - seconds) < abs(best["Perf/train_seconds"] - seconds)):
                best = values
    return best


def spread(values, form="%.3f"):
    """Mean, least and greatest in words; a run without the number counts as none."""
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    text = form % (sum(values) / len(values))
    return text if len(values) == 1 else text + " (%s..%s)" % (form % min(values), form % max(values))


def given_table(options, runs, part):
    """Markdown: what each way reached in the student's own share of the time."""
    seconds = 60 * options.minutes * (1 - TEACHER_SHARE)
    rows = ["| after %.0f s of the student's own training, the teacher given | velocity error, m/s | yaw rate error, rad/s | falls, %% | RMSE to label |" % seconds,
            "| --- | --- | --- | --- | --- |"]
    for name in GIVEN[part]:
        at = [nearest(os.path.join(options.out, r["name"]), seconds) for r in runs if r["way"] == name]
        falls = [100 * e["Eval/fall_rate"] for e in at]
        labels = [e.get("Loss/behavior") if "Policy/mix" in e else None for e in at]
        rows.append("| %s | %s | %s | %s | %s |" % (name, spread([e.get("Eval/vel_err") for e in at]), spread([e.get("Eval/yaw_err") for e in at]),
                                                    spread(falls, "%.1f"), spread(labels)))
    return "\n".join(rows) + "\n"


def report(options, runs):
    """Tables on standard output, the picture beside the runs."""
    folders = [os.path.join(options.out, r["name"]) for r in runs]
    svg = os.path.join(options.out, "opd.svg")
    compared = subprocess.run([options.clawlearn, "compare", "--markdown", "--by", "minutes", "--svg", svg] + folders,
                              stdout=subprocess.PIPE, universal_newlines=True, check=False)
    if compared.returncode != 0:
        raise Failed("clawlearn compare: exit %d" % compared.returncode)
    print("Time and steps of trained teachers included; mean over seeds (least..greatest), last evaluation in eval_v1:\n\n" + compared.stdout)
    for part in options.parts:
        print(given_table(options, runs, part))
    print("curves: " + svg)


def number_list(text):
    seeds = [int(s) for s in text.split(",")]
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise argparse.ArgumentTypeError("%s: want different numbers of 0 or more" % text)
    return seeds


def part_list(text):
    parts = text.split(",")
    if not set(parts) <= set(PARTS) or len(set(parts)) < len(parts):
        raise argparse.ArgumentTypeError("%s: want %s, each once" % (text, " or ".join(PARTS)))
    return parts


def minutes(text):
    value = float(text)
    if not 0 < value < 1e5:
        raise argparse.ArgumentTypeError("%s: want more than 0" % text)
    return value


def main(argv):
    """Runs what is not finished, then reports. Gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clawlearn", default="bin/clawlearn", help="the program, built with libtorch")
    parser.add_argument("--out", default="out/opd", help="folder of the runs")
    parser.add_argument("--minutes", type=minutes, default=2, help="training of each way and seed, its teacher's included")
    parser.add_argument("--seeds", type=number_list, default=[1, 2, 3], help="1,2,3")
    parser.add_argument("--parts", type=part_list, default=["equal"], help="equal (teachers against PPO alone), large (to a small network)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of every run's configuration, to try the experiment")
    options = parser.parse_args(argv)
    options.out = os.path.abspath(options.out)
    signals = Signals()
    try:
        with signals.watched():
            runs = plan(options)
            keep_plan(options, runs)
            for i, r in enumerate(runs):
                train(options, r, "[%d of %d]" % (i + 1, len(runs)), signals)
            report(options, runs)
    except (Failed, OSError) as e:
        print("opd-experiment: %s" % e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("opd-experiment: interrupted; start again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
