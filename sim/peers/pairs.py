"""Measurements in pairs, ours and another program's alternately on one machine: what sim/peers and learner/peers have in common.

    in_pairs ─┬─ Worker    the other side: one process for all pairs, idle while ours is timed
              └─ program   ours: a process for each measurement, whose last line is JSON

A script makes pairs of its two sides, every second one in the opposite order, takes median and quartiles of the ratios, prints both
sides' settings and complains where both did not do the same. Python 3.8 or later, standard library only.
"""

import collections
import contextlib
import json
import os
import statistics
import subprocess
import sys


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


class Worker:
    """A Python script that answers each line with one line of JSON, and says one first."""

    def __init__(self, script, arguments, environment=None):
        self.name = os.path.basename(script)
        # A session of its own: Ctrl-C is for this process, which then ends that one.
        self.process = subprocess.Popen(
            [sys.executable, "-B", script] + arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True,
            start_new_session=True, env=dict(os.environ, **(environment or {})))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()  # it holds nothing but memory
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # what it no longer took
            self.process.stdin.close()
        self.process.stdout.close()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            raise Failed("%s ended with %d and said why above" % (self.name, code))
        return last_json(line)

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # answer says how it ended
        return self.answer()


def program(command):
    """What one run of a program of ours says on its last line."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, universal_newlines=True, check=False)
    if done.returncode != 0:
        raise Failed("%s ended with %d" % (" ".join(command), done.returncode), 3 if done.returncode == 3 else 1)
    return last_json(done.stdout)


Side = collections.namedtuple("Side", "key title")  # one of the two: its key in results, its name for a person


def orders(sides, count):
    """Which side is first in each pair."""
    return [tuple(sides) if i % 2 == 0 else tuple(reversed(sides)) for i in range(count)]


def in_pairs(sides, measure, count, each):
    """Measures (peer, ours) in pairs by measure[key](number of the pair), and calls each(number, pair). A pair's ratio is of steps per
    second, ours over the peer's."""
    peer, ours = sides
    measured = []
    for number, order in enumerate(orders(sides, count), 1):
        pair = {"order": [side.key for side in order]}
        for side in order:
            pair[side.key] = measure[side.key](number)
        pair["ratio"] = pair[ours.key]["steps_per_s"] / pair[peer.key]["steps_per_s"]
        each(number, pair)
        measured.append(pair)
        print("  pair %d, %s first: %s %.0f, %s %.0f steps/s, ratio %.2f" % (
            number, order[0].title, peer.title, pair[peer.key]["steps_per_s"], ours.title, pair[ours.key]["steps_per_s"], pair["ratio"]),
            flush=True)
    return measured


def summary(sides, title, measured, complaints, reach, aim):
    """The result of some pairs; complaints are sentences on what was not the same."""
    peer, ours = (side.key for side in sides)
    found = {
        "title": title, "ok": not complaints, "complaints": complaints, "pairs": len(measured),
        "ratio": quartiles([p["ratio"] for p in measured]), "reach": reach, "aim": aim,
        "cpu_ratio": quartiles([p[peer]["cpu_us_per_step"] / p[ours]["cpu_us_per_step"] for p in measured]),
    }
    for key in (peer, ours):
        found[key + "_steps_per_s"] = quartiles([p[key]["steps_per_s"] for p in measured])
        found[key + "_rss_mb"] = max(p[key]["rss_mb"] for p in measured)
    return found


def print_summary(sides, s):
    wide = max(len(side.title) for side in sides)
    for side in sides:
        q = s[side.key + "_steps_per_s"]
        print("  %-*s %8.0f steps/s (quartiles %.0f .. %.0f), peak memory %.0f MiB" % (
            wide, side.title, q["median"], q["lower"], q["upper"], s[side.key + "_rss_mb"]))
    q = s["ratio"]
    print("  %-*s %8.2f (quartiles %.2f .. %.2f) over %d pairs; wanted %g, aim %g"
          % (wide, "ratio", q["median"], q["lower"], q["upper"], s["pairs"], s["reach"], s["aim"]))
    q = s["cpu_ratio"]
    print("  the same by processors' time instead of the clock: %.2f (quartiles %.2f .. %.2f)" % (q["median"], q["lower"], q["upper"]))


def print_complaints(s):
    for said in s["complaints"]:
        print("  NOT THE SAME: %s" % said)


def note(said):
    print(said, file=sys.stderr, flush=True)


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


def unequal(sides, settings, equal):
    """Sentences on settings, by side's key, that both sides should have alike."""
    (peer, ours), said = sides, []
    for key in equal:
        theirs, mine = settings[peer.key].get(key), settings[ours.key].get(key)
        if theirs is None or theirs != mine:
            said.append("%s: %s has %s, %s has %s" % (key, peer.title, json.dumps(theirs), ours.title, json.dumps(mine)))
    return said


def print_settings(sides, settings, shown):
    """A table of both sides' settings; shown are keys with titles."""
    peer, ours = sides
    wide = max(len(title) for _, title in shown)
    print("  %-*s  %s | %s" % (wide, "", peer.title, ours.title))
    for key, title in shown:
        theirs, mine = (text(settings[side.key].get(key)) for side in sides)
        print("  %-*s  %s" % (wide, title, theirs if theirs == mine else "%s | %s" % (theirs, mine)))


def machine():
    """Processor, cores and load."""
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}


def print_machine():
    """Prints where it is measured, and warns of a busy machine."""
    here = machine()
    print("%s, %d cores, load %.2f" % (here["processor"], here["cores"], here["load"]), flush=True)
    if here["load"] > 0.5:
        note("note: the load is %.2f; on a machine that does nothing else both sides are faster" % here["load"])
    return here


def check(numbers=(), files=(), chosen="", choices=(), memory_mb=0, what=""):
    """Refuses what cannot work before time is spent on it: (flag, number) below 1, (flag, path) of no file, a name of --settings that is
    no choice, and less free memory than what (rows, samples) need."""
    for flag, value in numbers:
        if value < 1:
            raise Failed("%s %d: want 1 or more" % (flag, value), 2)
    unknown = [name for name in chosen.split(",") if name not in choices]
    if choices and unknown:
        raise Failed("--settings %s: %r is not one of %s" % (chosen, unknown[0], ", ".join(choices)), 2)
    for flag, path in files:
        if not os.path.isfile(path):
            raise Failed("%s %s: no such file" % (flag, path), 3)
    with open("/proc/meminfo", encoding="ascii") as f:
        free = next(int(line.split()[1]) for line in f if line.startswith("MemAvailable")) / 1024
    if free < memory_mb:
        raise Failed("%s need about %.0f MiB, %.0f are free" % (what, memory_mb, free), 3)


def keep(folder, name, value):
    """Writes folder/name.json."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def main(argv, parse, run):
    """Runs run(parse(argv)), which prints JSON last and returns the exit code, and says what failed."""
    try:
        return run(parse(argv))
    except Failed as failed:
        note("bench-peers: %s" % failed)
        print(json.dumps({"ok": False, "error": str(failed), "exit_code": failed.code}))
        return failed.code
    except KeyboardInterrupt:
        note("bench-peers: interrupted")
        return 130
