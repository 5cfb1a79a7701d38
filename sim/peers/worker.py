"""What the scripts behind a Worker of pairs.py have in common: lines in, JSON out, and what a measurement cost.

Standard library only; each runs in the peers' virtual environment.
"""

import json
import os
import resource
import sys


def own_stdout():
    """The stream that the pairs read; what libraries print to stdout from now on is lost, what they warn of is not."""
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    with open(os.devnull, "w", encoding="ascii") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
    return stream


def serve(stream, first, answer):
    """Says first, and for each line of stdin answer(line)."""
    print(json.dumps(first), file=stream, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.rstrip("\n"))), file=stream, flush=True)


def memory_mb():
    """Peak of this process, MiB."""
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def cpu_seconds():
    """What all threads of this process have used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
