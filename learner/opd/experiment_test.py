"""Tests of experiment.py with a clawlearn that only writes what it is asked: python3 -m unittest discover -s learner/opd -p '*_test.py'"""

import contextlib
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import experiment

# It writes two evaluations, appends its command line to calls.jsonl, and does what behave says.
FAKE = """#!%s -SE
import json, os, signal, sys, time
def told(*_):
    with open(os.path.join(here, "told"), "a") as f:
        f.write("told\\n")
    if behave != "waits for two" or told.before:
        raise KeyboardInterrupt
    told.before = True
told.before = False
signal.signal(signal.SIGTERM, told)
args = sys.argv[1:]
parent, late = os.getppid(), time.monotonic() + 60
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "calls.jsonl"), "a") as f:
    f.write(json.dumps(args) + "\\n")
with open(os.path.join(here, "behave")) as f:
    behave = f.read()
if args[0] == "compare":
    print("| a table of %%d runs |" %% sum(os.path.isdir(a) for a in args[5:]))
    sys.exit(3 if behave == "no table" else 0)
folder = args[args.index("--out") + 1]
os.makedirs(folder, exist_ok=True)
open(os.path.join(folder, "meta.json"), "w").close()
minutes = float(args[args.index("--minutes") + 1]) if "--minutes" in args else 1
if behave == "fails":
    print("no luck", file=sys.stderr)
    sys.exit(1)
if behave.startswith("waits"):
    try:
        while os.getppid() == parent and time.monotonic() < late:  # a test that fails leaves nothing behind
            time.sleep(0.02)
    except KeyboardInterrupt:
        print(json.dumps({"seconds": 1}), flush=True)
        open(os.path.join(here, "ended"), "w").close()
    sys.exit(0)
with open(os.path.join(folder, "metrics.jsonl"), "w") as f:
    for part, err in ((0.5, 0.4), (1, 0.2)):
        line = {"Perf/train_seconds": 60 * minutes * part + 0.1, "Eval/vel_err": err, "Eval/yaw_err": err / 2, "Eval/fall_rate": err / 10}
        if any(a.startswith("algo.opd.teacher=") for a in args):
            line.update({"Policy/mix": 0, "Loss/behavior": 0.7})
        f.write(json.dumps(line) + "\\n")
print("a word before")
print(json.dumps({"seconds": 1 if behave == "early" else 60 * minutes + 0.1}))
"""


class Experiment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        self.program = os.path.join(self.dir, "clawlearn")
        with open(self.program, "w", encoding="utf-8") as f:
            f.write(FAKE % sys.executable)
        os.chmod(self.program, os.stat(self.program).st_mode | stat.S_IXUSR)
        self.out = os.path.join(self.dir, "out")
        self.behave("well")

    def behave(self, how):
        with open(os.path.join(self.dir, "behave"), "w", encoding="utf-8") as f:
            f.write(how)

    def run_it(self, *more):
        """Runs the experiment; gives exit status, output, errors and what clawlearn was asked."""
        calls = os.path.join(self.dir, "calls.jsonl")
        open(calls, "w", encoding="utf-8").close()
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = experiment.main(["--clawlearn", self.program, "--out", self.out, "--minutes", "2"] + list(more))
        with open(calls, encoding="utf-8") as f:
            return code, out.getvalue(), err.getvalue(), [json.loads(line) for line in f]

    def test_time_is_equal_and_teachers_come_first(self):
        options = type("o", (), {"seeds": [1, 2, 3], "parts": ["equal", "large"], "out": "/o", "minutes": 2.0, "set": []})
        runs = experiment.plan(options)
        by_name = {r["name"]: r for r in runs}
        self.assertEqual(len(by_name), len(runs))
        self.assertEqual(len(runs), 3 * (9 + 3))
        for r in runs:
            teachers = [s[len("algo.opd.file=/o/"):] for s in r["sets"] if s.startswith("algo.opd.file=")]
            if r["way"].startswith("privileged"):
                self.assertEqual(teachers, ["teacher-%d" % r["seed"]])
                self.assertAlmostEqual(by_name[teachers[0]]["minutes"] + r["minutes"], 2)
            elif r["way"] not in ("teacher", "small-ppo", "small-taught"):
                self.assertEqual(r["minutes"], 2)
            for t in teachers:
                self.assertLess(runs.index(by_name[t]), runs.index(r))
        self.assertEqual(by_name["small-ppo-1"]["minutes"], by_name["small-taught-1"]["minutes"])
        kinds = {(r["way"].split("-")[0], m) for r in runs for m in ("0", "0.3") if "algo.opd.mix.start=" + m in r["sets"]}
        self.assertEqual(kinds, {(k, m) for k in ("privileged", "gait", "snapshot") for m in ("0", "0.3")} | {("small", "0.3")})

    def test_runs_all_once(self):
        code, out, err, calls = self.run_it("--seeds", "1,2", "--set", "rows=8")
        self.assertEqual((code, len(calls)), (0, 2 * 9 + 1), err)
        self.assertEqual(calls[-1][:4], ["compare", "--markdown", "--by", "minutes"])
        self.assertTrue(all("rows=8" in c and "keep.clip=none" in c for c in calls[:-1]))
        self.assertIn("| a table of 18 runs |", out)
        # PPO after half of its time, students after all of theirs.
        self.assertIn("| ppo | 0.400 (0.400..0.400) | 0.200 (0.200..0.200) | 4.0 (4.0..4.0) | - |", out)
        self.assertIn("| privileged-mix0.3 | 0.200 (0.200..0.200) | 0.100 (0.100..0.100) | 2.0 (2.0..2.0) | 0.700 (0.700..0.700) |", out)
        self.assertIn("[18 of 18] snapshot-mix0.3-2: 2 min", err)
        code, again, _, calls = self.run_it("--seeds", "1,2", "--set", "rows=8")
        self.assertEqual((code, len(calls), again), (0, 1, out))
        # More parts are more runs of the same experiment.
        code, _, err, calls = self.run_it("--seeds", "2", "--parts", "large,equal", "--set", "rows=8")
        self.assertEqual((code, len(calls)), (0, 3 + 1), err)

    def test_another_question_wants_another_folder(self):
        self.behave("fails")
        self.assertEqual(self.run_it("--seeds", "1")[0], 1)
        code, _, err, calls = self.run_it("--seeds", "1", "--minutes", "3")
        self.assertEqual((code, calls), (1, []))
        self.assertIn("holds ppo-1 with other settings", err)

    def test_a_run_that_is_not_finished_goes_on(self):
        for how, says in (("early", "ppo-1 was ended early"), ("fails", "ppo-1: exit 1, see " + os.path.join(self.out, "ppo-1.log"))):
            self.behave(how)
            code, _, err, calls = self.run_it("--seeds", "1")
            self.assertEqual((code, len(calls)), (1, 1))
            self.assertIn(says, err)
        self.behave("well")
        code, _, _, calls = self.run_it("--seeds", "1")
        self.assertEqual(code, 1)  # the rest of one minute is less than two
        self.assertEqual(calls[0], ["train", "--out", os.path.join(self.out, "ppo-1"), "--json", "--resume"])

    def test_no_table(self):
        self.behave("no table")
        code, _, err, _ = self.run_it("--seeds", "1")
        self.assertEqual(code, 1)
        self.assertIn("clawlearn compare: exit 3", err)

    def start(self, ignored=()):
        """Starts the experiment as a process of its own, SIGINT and SIGHUP as a shell leaves them but for those that are ignored."""
        def begin():
            for s in (signal.SIGINT, signal.SIGHUP):
                signal.signal(s, signal.SIG_IGN if s in ignored else signal.SIG_DFL)

        script = subprocess.Popen([sys.executable, "-B", experiment.__file__, "--clawlearn", self.program, "--out", self.out, "--seeds", "1"],
                                  stderr=subprocess.PIPE, universal_newlines=True, preexec_fn=begin)

        def end():
            if script.poll() is None:
                script.kill()
            script.communicate()

        self.addCleanup(end)
        self.until(script, os.path.join(self.out, "ppo-1", "meta.json"))
        return script

    def until(self, script, path):
        """Waits for a file that must come."""
        late = time.monotonic() + 30
        while not os.path.exists(path):
            self.assertIsNone(script.poll())
            self.assertLess(time.monotonic(), late, path)
            time.sleep(0.01)

    def interrupted(self, script):
        """Checks that the script ends, after the run."""
        _, err = script.communicate(timeout=30)
        self.assertEqual(script.returncode, 130, err)
        self.assertIn("start again to go on", err)
        self.assertTrue(os.path.exists(os.path.join(self.dir, "ended")))
        self.assertFalse(os.path.exists(os.path.join(self.out, "ppo-1.json")))

    def test_an_interrupt_reaches_the_run(self):
        self.behave("waits")
        for s, ignored in ((signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGHUP, ()), (signal.SIGTERM, (signal.SIGINT, signal.SIGHUP))):
            with self.subTest(s=s, ignored=ignored):
                shutil.rmtree(self.out, ignore_errors=True)
                script = self.start(ignored)
                for i in ignored:
                    script.send_signal(i)
                script.send_signal(s)
                self.interrupted(script)
                os.remove(os.path.join(self.dir, "ended"))

    def test_a_second_interrupt_reaches_the_run_too(self):
        self.behave("waits for two")
        script = self.start()
        script.send_signal(signal.SIGINT)
        self.until(script, os.path.join(self.dir, "told"))
        script.send_signal(signal.SIGINT)
        self.interrupted(script)
        with open(os.path.join(self.dir, "told"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "told\ntold\n")

    def test_an_interrupt_while_the_run_begins(self):
        self.behave("waits")
        begun = []

        def begin(*args, **more):
            child = popen(*args, **more)
            begun.append(child)
            self.until(child, os.path.join(self.out, "ppo-1", "meta.json"))
            signal.raise_signal(signal.SIGTERM)
            return child

        popen, before = subprocess.Popen, signal.getsignal(signal.SIGTERM)
        with unittest.mock.patch.object(subprocess, "Popen", begin):
            code, _, err, _ = self.run_it("--seeds", "1")
        self.assertEqual((code, len(begun), begun[0].returncode), (130, 1, 0), err)
        self.assertTrue(os.path.exists(os.path.join(self.dir, "ended")))
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)

    def test_refuses(self):
        for args, says in ((["--minutes", "0"], "want more than 0"), (["--minutes", "nan"], "want more than 0"), (["--seeds", "1,1"], "want different numbers"),
                           (["--seeds", "a"], "invalid"), (["--parts", "all"], "want equal or large"), (["--parts", "equal,equal"], "each once")):
            err = io.StringIO()
            with contextlib.redirect_stderr(err), self.assertRaises(SystemExit) as exit_:
                experiment.main(args)
            self.assertEqual(exit_.exception.code, 2)
            self.assertIn(says, err.getvalue())
        self.program = os.path.join(self.dir, "none")
        code, _, err, _ = self.run_it("--seeds", "1")
        self.assertEqual(code, 1)
        self.assertIn("none", err)

    def test_spread(self):
        self.assertEqual(experiment.spread([1, None, 2.5]), "1.750 (1.000..2.500)")
        self.assertEqual(experiment.spread([None]), "-")
        self.assertEqual(experiment.spread([3], "%.1f"), "3.0")


if __name__ == "__main__":
    unittest.main()
