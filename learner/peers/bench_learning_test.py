"""Tests of bench_learning.py: python3 -B -m unittest discover -s learner/peers -p '*_test.py' (part of make lint)."""

import array
import contextlib
import io
import json
import math
import os
import shutil
import tempfile
import unittest
import unittest.mock

import bench_learning
from bench_learning import pairs

PPO = {"clip": 0.2, "value_clip": 0.2, "value_weight": 1.0, "entropy_weight": 0.01, "max_grad_norm": 1.0, "clip_apart": True,
       "rate": 0.001, "min_rate": 1e-05, "max_rate": 0.01, "kl_target": 0.01, "mirror": False}
PEER = dict(PPO, library="rsl-rl-lib 5.5.1", actor=[8], critic=[8], observed=[47, 63], actions=12, epochs=5, minibatches=4, stored="fp32")
RATES = [0.0015, 0.001]


def written(path, parameters, note=True):
    """A safetensors file."""
    header, data = {"__metadata__": {"format": "np"}} if note else {}, b""
    for name, values in parameters.items():
        part = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


def measured(speed, **more):
    return dict({"steps_per_s": speed, "cpu_us_per_step": 2e6 / speed, "rss_mb": 100.0, "learning_rates": RATES}, **more)


def ours(what, speed=300.0, **settings):
    """What clawlearn bench says."""
    said = {"what": what, "samples": 192, "iterations": 2, "rows": 4, "steps": 24, "threads": 2, "actor": [8], "critic": [8], "epochs": 5,
            "minibatches": 4, "observed": [47, 63], "actions": 12, "library": "libtorch 2.1.0", "cpu_seconds": 0.5,
            "settings": dict(PPO, **settings)}
    if what == "train":
        said["settings"].update(mirror=True, clip_apart=False, world="walk", physics="lean")
    return measured(speed, **said)


class AgreementTest(unittest.TestCase):

    def test_agreement(self):
        before = {"a": [0.0, 0.0], "b": [1.0]}
        found = bench_learning.agreement(before, {"a": [3.0, 0.0], "b": [5.0]}, {"a": [3.0, 0.0], "b": [5.5]})
        self.assertEqual(found, {"max_abs": 0.5, "where": "b", "moved_max_abs": 4.0, "relative": 0.1})

    def test_limits(self):
        def said(max_abs, relative):
            return bench_learning.disagreements({"max_abs": max_abs, "where": "a", "relative": relative})

        self.assertEqual(said(9e-4, 9e-4), [])
        self.assertEqual(len(said(1.1e-3, 0.0)), 1)
        self.assertEqual(len(said(0.0, 1.1e-3)), 1)
        self.assertEqual(len(said(math.nan, 0.0)), 1)

    def test_no_number_and_no_movement(self):
        found = bench_learning.agreement({"a": [0.0]}, {"a": [1.0]}, {"a": [math.nan]})
        self.assertEqual(len(bench_learning.disagreements(found)), 1)
        same = bench_learning.agreement({"a": [1.0]}, {"a": [1.0]}, {"a": [1.0]})  # nothing was learnt on either side
        self.assertEqual(len(bench_learning.disagreements(same)), 1)

    def test_other_parameters(self):
        for other in ({"b": [1.0]}, {"a": [1.0, 2.0]}, {}):
            with self.assertRaisesRegex(pairs.Failed, "differ in kind"):
                bench_learning.agreement({"a": [1.0]}, {"a": [1.0]}, other)

    def test_rates(self):
        self.assertEqual(bench_learning.other_rates([1e-3, 1e-5], [1e-3, 1.0000000001e-5]), [])
        self.assertIn("minibatch 2: rsl-rl-lib has 1e-05, clawlearn 1.5e-05", bench_learning.other_rates([1e-3, 1e-5], [1e-3, 1.5e-5])[0])
        self.assertIn("has 2, clawlearn 1", bench_learning.other_rates([1e-3, 1e-5], [1e-3])[0])


class FilesTest(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.path = os.path.join(self.top, "file")

    def test_parameters(self):
        written(self.path, {"a": [1.0, -2.0], "b": [0.5]})
        self.assertEqual({name: list(p) for name, p in bench_learning.read_parameters(self.path).items()}, {"a": [1.0, -2.0], "b": [0.5]})

    def test_refuses(self):
        text = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        for content in (b"", b"\x05\0\0\0\0\0\0\0words", b"\2\0\0\0\0\0\0\0[]", len(text).to_bytes(8, "little") + text + b"1234",
                        b"\x0a\0\0\0\0\0\0\0" + b'{"a": {}} ', b"\xff" * 64):
            with open(self.path, "wb") as f:
                f.write(content)
            with self.assertRaisesRegex(pairs.Failed, "is no safetensors file", msg=content):
                bench_learning.read_parameters(self.path)
        with self.assertRaisesRegex(pairs.Failed, "none is no safetensors file"):
            bench_learning.read_parameters("none")


class SettingsTest(unittest.TestCase):

    def test_flags(self):
        flags = bench_learning.set_flags(PEER)
        self.assertEqual(flags[0::2], ["--set"] * (len(flags) // 2))
        self.assertEqual(flags[1::2], ["algo.net.actor=[8]", "algo.net.critic=[8]"] + ["algo.ppo." + s for s in (
            "epochs=5", "minibatches=4", "clip=0.2", "value_clip=0.2", "value_weight=1.0", "entropy_weight=0.01", "entropy_end=0.01",
            "max_grad_norm=1.0", "rate=0.001", "min_rate=1e-05", "max_rate=0.01", "kl_target=0.01", "kl_end=0.01")])

    def test_our_settings(self):
        update, train = (bench_learning.our_settings(ours(what)) for what in ("update", "train"))
        self.assertEqual((update["samples"], update["stored"], update["rate"]), (96, "fp16, the same numbers", 0.001))
        self.assertEqual((train["rows"], train["steps"], train["world"]), (4, 24, "clawlearn, world walk, physics lean"))
        self.assertNotIn("rows", update)
        self.assertNotIn("samples", train)

    def test_best_threads(self):
        for speeds, best in (({1: 5.0, 2: 6.0}, 2), ({1: 6.0, 2: 5.0}, 1)):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                got = bench_learning.best_threads(lambda n, speeds=speeds: {"steps_per_s": speeds[n]})
            self.assertEqual(got, (best, speeds))
            self.assertIn("compared with %d" % best, out.getvalue())


class FakeWorker:
    """Answers at once. An update adds 1 to a parameter of 2 numbers that begin at 0."""

    asked = []

    def __init__(self, script, arguments):
        assert os.path.isfile(script), script
        given = dict(zip(arguments[0::2], arguments[1::2]))
        self.update = script.endswith("rsl_update.py")
        if self.update:
            written(given["--data"], {"actor.0.weight": [0.0, 0.0]})
            self.settings = dict(PEER, samples=int(given["--samples"]))
        else:
            self.settings = dict(PEER, rows=int(given["--rows"]), steps=24, world="EnvPool")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def answer(self):
        return {"settings": self.settings}

    def ask(self, line):
        self.asked.append(line)
        threads, rest = line.split(" ", 1)
        if self.update:
            written(rest, {"actor.0.weight": [1.0, 1.0]})
        return measured(50.0 * int(threads))


class MainTest(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.program = os.path.join(self.top, "clawlearn")
        with open(self.program, "w", encoding="ascii"):
            pass
        self.commands = []
        FakeWorker.asked = []

    def main(self, *more, after=(1.0, 1.0), said=ours):
        """Runs it with both sides answering at once; exit code, output, the object on its last line."""
        def program(command):
            self.commands.append(command)
            if "--result" in command:
                written(command[command.index("--result") + 1], {"actor.0.weight": after}, note=False)
            return said(command[2])

        arguments = ["--clawlearn", self.program, "--out", os.path.join(self.top, "out"), "--rows", "4", "--samples", "96"]
        with unittest.mock.patch.object(pairs, "Worker", FakeWorker), unittest.mock.patch.object(pairs, "program", program), \
                contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            code = pairs.main(arguments + list(more), bench_learning.parse, bench_learning.run)
        return code, out.getvalue(), json.loads(out.getvalue().strip().splitlines()[-1])

    def test_ratios_of_three(self):
        code, out, last = self.main("--pairs", "3", "--iterations", "7")
        self.assertEqual((code, last["ok"]), (0, True), out)
        for name in ("update", "train"):
            self.assertEqual((last["settings"][name]["ratio"]["median"], last["settings"][name]["pairs"]), (3.0, 3))
            with open(os.path.join(self.top, "out", name + ".json"), encoding="utf-8") as f:
                self.assertEqual([p["order"][0] for p in json.load(f)["pairs"]], ["rsl_rl", "clawlearn", "rsl_rl"])
        self.assertEqual(last["settings"]["update"]["agreement"]["max_abs"], 0.0)
        self.assertEqual([line.split(" ")[0] for line in FakeWorker.asked], ["2", "1", "2", "2", "2", "2", "1", "2", "2", "2", "2"])
        self.assertIn("ratio          3.00 (quartiles 3.00 .. 3.00) over 3 pairs; wanted 1.25, aim 1.35", out)
        train = self.commands[-1]
        self.assertEqual(train[1:10], ["bench", "train", "--json", "--threads", "2", "--iterations", "7", "--rows", "4"])

    def test_disagreement_fails(self):
        code, out, last = self.main("--settings", "update", "--pairs", "1", after=(1.0, 1.002))
        self.assertEqual((code, last["ok"]), (1, False))
        self.assertIn("NOT THE SAME: parameters after one update: actor.0.weight differs by 0.002", out)

    def test_other_rates_fail(self):
        code, out, _ = self.main("--settings", "update", "--pairs", "1", said=lambda what: dict(ours(what), learning_rates=[0.0015, 0.0015]))
        self.assertEqual(code, 1)
        self.assertIn("NOT THE SAME: learning rate of minibatch 2", out)

    def test_other_settings_fail(self):
        for name in ("update", "train"):
            code, out, _ = self.main("--settings", name, "--pairs", "1", said=lambda what: dict(ours(what), epochs=4))
            self.assertEqual(code, 1)
            self.assertIn("NOT THE SAME: epochs: rsl-rl-lib has 5, clawlearn has 4", out)

    def test_refuses(self):
        for more, code, says in (
                (["--pairs", "0"], 2, "--pairs 0"), (["--threads", "0"], 2, "--threads 0"), (["--samples", "-96"], 2, "--samples -96"),
                (["--rows", "0"], 2, "--rows 0"), (["--iterations", "0"], 2, "--iterations 0"),
                (["--samples", "100"], 2, "--samples 100: want a multiple of 96"), (["--settings", "update,x"], 2, "'x' is not one of update, train"),
                (["--clawlearn", "none"], 3, "none: no such file"), (["--rows", "100000000"], 3, "100000000 rows need about"),
                (["--samples", "9600000000"], 3, "9600000000 samples")):
            got, _, last = self.main(*more)
            self.assertEqual((got, last["ok"], last["exit_code"]), (code, False, code), more)
            self.assertIn(says, last["error"])


if __name__ == "__main__":
    unittest.main()
