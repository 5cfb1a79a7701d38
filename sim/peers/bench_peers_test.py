"""Tests of bench_peers.py: python3 -B -m unittest discover -s sim/peers -p '*_test.py' (part of make lint)."""

import contextlib
import io
import json
import os
import shutil
import tempfile
import unittest
import unittest.mock

import bench_peers

HERE = os.path.dirname(os.path.abspath(__file__))
PEER_SETTINGS = {
    "mujoco": "3.6.0", "timestep_s": 0.004, "substeps": 5, "iterations": 1, "ls_iterations": 5, "solver": "newton", "cone": "pyramidal",
    "integrator": "euler", "implicit_damping": False, "colliding_geoms": 4, "friction": 0.6, "joint_friction_rows": 12, "kp": 35.0,
    "kd": 0.5, "commands_max": [1.5, 0.8, 1.2], "episode_steps": 1000, "policy_sha256": "386c",
    "noise": {"gyro": 0.2, "gravity": 0.05, "joint_pos": 0.03, "joint_vel": 1.5, "lin_vel": 0.1},
}


def peer_measured(speed=10000.0, contacts=2.0, ended=256, fell=0):
    return {"rows": 256, "steps": 1000, "steps_per_s": speed, "cpu_us_per_step": 2e6 / speed,
            "contacts": contacts, "ended": ended, "fell": fell, "rss_mb": 13000.0}


def clawsim_measured(speed=40000.0, **more):
    """What clawsim bench says in the peer's world."""
    said = peer_measured(speed, **more)
    said["settings"] = {key: PEER_SETTINGS[key] for key in (
        "timestep_s", "substeps", "iterations", "ls_iterations", "solver", "cone", "integrator", "implicit_damping", "colliding_geoms",
        "kp", "kd", "policy_sha256")}
    with open(os.path.join(HERE, "world_peer.json"), encoding="utf-8") as f:
        said["world"] = json.load(f)
    return said


class StatisticsTest(unittest.TestCase):

    def test_quartiles(self):
        self.assertEqual(bench_peers.quartiles([7, 1, 3, 2, 6, 4, 5]), {"median": 4, "lower": 2.5, "upper": 5.5})
        self.assertEqual(bench_peers.quartiles([3.5]), {"median": 3.5, "lower": 3.5, "upper": 3.5})
        self.assertEqual(bench_peers.quartiles([1, 2]), {"median": 1.5, "lower": 1.25, "upper": 1.75})
        with self.assertRaises(ValueError):
            bench_peers.quartiles([])

    def test_difference(self):
        self.assertAlmostEqual(bench_peers.difference(1.5, 2.0), -25.0)
        self.assertEqual(bench_peers.difference(0, 0), 0)
        self.assertIsNone(bench_peers.difference(1, 0))
        self.assertEqual([bench_peers.percent(p) for p in (None, -25.0, 0.0)], ["no ratio", "-25.0 %", "+0.0 %"])

    def test_pairs_alternate(self):
        first = [order[0] for order in bench_peers.orders(7)]
        self.assertEqual(first, ["envpool", "clawsim"] * 3 + ["envpool"])

    def test_work_is_the_mean_over_pairs(self):
        pairs = [{"envpool": peer_measured(contacts=2.0, ended=256), "clawsim": clawsim_measured(contacts=2.2, ended=512, fell=256)},
                 {"envpool": peer_measured(contacts=2.0, ended=256), "clawsim": clawsim_measured(contacts=1.8, ended=256)}]
        work = bench_peers.work(pairs)
        self.assertAlmostEqual(work["contacts"]["clawsim"], 2.0)
        self.assertAlmostEqual(work["ended_per_1000_steps"]["envpool"], 1.0)
        self.assertAlmostEqual(work["ended_per_1000_steps"]["difference_percent"], 50.0)
        self.assertIsNone(work["fell_per_1000_steps"]["difference_percent"])


class WorkTest(unittest.TestCase):
    """Both sides must have done the same work."""

    def complaints(self, measured, settings=None):
        pairs = [{"envpool": peer_measured(), "clawsim": measured}]
        both = {"envpool": dict(PEER_SETTINGS, **(settings or {})), "clawsim": bench_peers.our_settings(measured)}
        return bench_peers.complaints(bench_peers.work(pairs), both, bench_peers.SETTINGS["a"]["equal"])

    def test_same_work(self):
        self.assertEqual(self.complaints(clawsim_measured(contacts=2.39, ended=210)), [])

    def test_other_work(self):
        for measured, name in ((clawsim_measured(contacts=1.5), "contacts"), (clawsim_measured(contacts=2.41), "contacts"),
                               (clawsim_measured(ended=0), "ended_per_1000_steps"), (clawsim_measured(contacts=float("nan")), "contacts")):
            self.assertEqual([said.split(":")[0] for said in self.complaints(measured)], [name])

    def test_other_settings(self):
        said = self.complaints(clawsim_measured(), {"iterations": 2, "commands_max": [1.0, 0.8, 1.2]})
        self.assertEqual(said, ["iterations: EnvPool has 2, clawsim has 1",
                                "commands_max: EnvPool has [1.0, 0.8, 1.2], clawsim has [1.5, 0.8, 1.2]"])

    def test_a_setting_that_neither_states(self):
        both = {"envpool": {}, "clawsim": {}}
        figures = bench_peers.work([{"envpool": peer_measured(), "clawsim": clawsim_measured()}])
        self.assertEqual(len(bench_peers.complaints(figures, both, ["kp"])), 1)


class OurSettingsTest(unittest.TestCase):

    def test_the_peers_world(self):
        found = bench_peers.our_settings(clawsim_measured())
        self.assertEqual(found["varied"], "nothing")
        self.assertEqual(found["pushes"], "none")
        self.assertEqual(found["friction"], 0.6)
        self.assertEqual(found["fall"], "trunk below -1 m, tilt over 90 degrees, knee below -1 m")

    def test_a_world_that_varies(self):
        said = clawsim_measured()
        said["world"]["vary"].update({"friction": [0.4, 1.2], "kp": [0.9, 1.1], "latency": [0, 0.02], "latency_step": 0.005})
        said["world"]["pushes"] = {"every_seconds": [4, 8], "velocity": 0.3}
        said["world"]["commands"]["min"] = [0, 0, 0]
        found = bench_peers.our_settings(said)
        self.assertEqual(found["friction"], [0.4, 1.2])
        self.assertEqual(found["varied"], {"kp": [0.9, 1.1], "latency": [0, 0.02]})
        self.assertEqual(found["pushes"], "0.3 m/s after 4 to 8 s")
        self.assertNotIn("commands_max", found)  # a range that is not symmetric is not the peer's

    def test_text(self):
        for value, want in ((0.004, "0.004"), (True, "yes"), (False, "no"), (None, "-"), (1, "1"), ("euler", "euler"),
                            ([1.5, 2], "1.5 2"), ({"b": 0.5, "a": 0}, "b 0.5"), ({"a": 0}, "none")):
            self.assertEqual(bench_peers.text(value), want)


class LastJSONTest(unittest.TestCase):

    def test_last_line(self):
        self.assertEqual(bench_peers.last_json('note\n{"a": 1}\n'), {"a": 1})
        for text in ("", "\n", "words", '{"a": 1}\nwords', "[1]", "3"):
            with self.assertRaises(bench_peers.Failed, msg=text):
                bench_peers.last_json(text)


class FakePeer:
    """Answers at once."""

    def __init__(self, _args, config):
        self.config = config

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def answer(self):
        return {"settings": PEER_SETTINGS}

    def measure(self, steps):
        assert steps in (bench_peers.WARM_UP, 1000)
        return peer_measured()


class MainTest(unittest.TestCase):

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.policy, self.program = (os.path.join(self.top, name) for name in ("policy.onnx", "clawsim"))
        for path in (self.policy, self.program):
            with open(path, "w", encoding="ascii"):
                pass

    def main(self, *more, measured=clawsim_measured):
        """Runs it with both sides answering at once; exit code, output, the object on its last line."""
        out = io.StringIO()
        arguments = ["--policy", self.policy, "--clawsim", self.program, "--out", os.path.join(self.top, "out"), "--rows", "4"]
        with unittest.mock.patch.object(bench_peers, "Peer", FakePeer), \
                unittest.mock.patch.object(bench_peers, "clawsim", lambda *_: measured()), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = bench_peers.main(arguments + list(more))
        return code, out.getvalue(), json.loads(out.getvalue().strip().splitlines()[-1])

    def test_a_ratio_of_four(self):
        code, out, last = self.main("--settings", "a", "--pairs", "3")
        self.assertEqual((code, last["ok"], last["settings"]["a"]["ratio"]["median"]), (0, True, 4.0))
        self.assertIn("ratio        4.00 (quartiles 4.00 .. 4.00) over 3 pairs", out)
        with open(os.path.join(self.top, "out", "a.json"), encoding="utf-8") as f:
            kept = json.load(f)
        self.assertEqual([p["order"][0] for p in kept["pairs"]], ["envpool", "clawsim", "envpool"])

    def test_other_work_fails(self):
        code, out, last = self.main("--settings", "a", "--pairs", "1", measured=lambda: clawsim_measured(ended=600))
        self.assertEqual((code, last["ok"]), (1, False))
        self.assertIn("NOT THE SAME WORK: ended_per_1000_steps", out)

    def test_refuses(self):
        for more, code, says in (
                (["--pairs", "0"], 2, "--pairs 0"), (["--rows", "0"], 2, "--rows 0"), (["--threads", "-1"], 2, "--threads -1"),
                (["--steps", "500"], 2, "--steps 500: want a multiple of 1000"), (["--settings", "a,c"], 2, "'c' is not one of a, b"),
                (["--policy", "none.onnx"], 3, "none.onnx: no such file"), (["--clawsim", "none"], 3, "none: no such file"),
                (["--rows", "100000000"], 3, "EnvPool needs about")):
            got, _, last = self.main(*more)
            self.assertEqual((got, last["ok"], last["exit_code"]), (code, False, code), more)
            self.assertIn(says, last["error"])


if __name__ == "__main__":
    unittest.main()
