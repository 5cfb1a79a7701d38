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
import pairs

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

    def test_difference(self):
        self.assertAlmostEqual(bench_peers.difference(1.5, 2.0), -25.0)
        self.assertEqual(bench_peers.difference(0, 0), 0)
        self.assertIsNone(bench_peers.difference(1, 0))
        self.assertEqual([bench_peers.percent(p) for p in (None, -25.0, 0.0)], ["no ratio", "-25.0 %", "+0.0 %"])

    def test_work_is_the_mean_over_pairs(self):
        measured = [{"envpool": peer_measured(contacts=2.0, ended=256), "clawsim": clawsim_measured(contacts=2.2, ended=512, fell=256)},
                    {"envpool": peer_measured(contacts=2.0, ended=256), "clawsim": clawsim_measured(contacts=1.8, ended=256)}]
        work = bench_peers.work(measured)
        self.assertAlmostEqual(work["contacts"]["clawsim"], 2.0)
        self.assertAlmostEqual(work["ended_per_1000_steps"]["envpool"], 1.0)
        self.assertAlmostEqual(work["ended_per_1000_steps"]["difference_percent"], 50.0)
        self.assertIsNone(work["fell_per_1000_steps"]["difference_percent"])


class WorkTest(unittest.TestCase):
    """Both sides must have done the same work."""

    def complaints(self, measured, settings=None):
        both_measured = [{"envpool": peer_measured(), "clawsim": measured}]
        both = {"envpool": dict(PEER_SETTINGS, **(settings or {})), "clawsim": bench_peers.our_settings(measured)}
        return bench_peers.complaints(bench_peers.work(both_measured), both, bench_peers.SETTINGS["a"]["equal"])

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

class FakeWorker:
    """Answers at once."""

    def __init__(self, script, arguments):
        assert os.path.isfile(script) and "--policy" in arguments

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def answer(self):
        return {"settings": PEER_SETTINGS}

    def ask(self, line):
        assert int(line) in (bench_peers.WARM_UP, 1000)
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
        with unittest.mock.patch.object(pairs, "Worker", FakeWorker), \
                unittest.mock.patch.object(bench_peers, "clawsim", lambda *_: measured()), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = pairs.main(arguments + list(more), bench_peers.parse, bench_peers.run)
        return code, out.getvalue(), json.loads(out.getvalue().strip().splitlines()[-1])

    def test_a_ratio_of_four(self):
        code, out, last = self.main("--settings", "a", "--pairs", "3")
        self.assertEqual((code, last["ok"], last["settings"]["a"]["ratio"]["median"]), (0, True, 4.0))
        self.assertIn("ratio       4.00 (quartiles 4.00 .. 4.00) over 3 pairs", out)
        with open(os.path.join(self.top, "out", "a.json"), encoding="utf-8") as f:
            kept = json.load(f)
        self.assertEqual([p["order"][0] for p in kept["pairs"]], ["envpool", "clawsim", "envpool"])

    def test_other_work_fails(self):
        code, out, last = self.main("--settings", "a", "--pairs", "1", measured=lambda: clawsim_measured(ended=600))
        self.assertEqual((code, last["ok"]), (1, False))
        self.assertIn("NOT THE SAME: ended_per_1000_steps", out)

    def test_refuses(self):
        for more, code, says in (
                (["--pairs", "0"], 2, "--pairs 0"), (["--rows", "0"], 2, "--rows 0"), (["--threads", "-1"], 2, "--threads -1"),
                (["--steps", "500"], 2, "--steps 500: want a multiple of 1000"), (["--settings", "a,c"], 2, "'c' is not one of a, b"),
                (["--policy", "none.onnx"], 3, "none.onnx: no such file"), (["--clawsim", "none"], 3, "none: no such file"),
                (["--rows", "100000000"], 3, "EnvPool's 100000000 rows need about")):
            got, _, last = self.main(*more)
            self.assertEqual((got, last["ok"], last["exit_code"]), (code, False, code), more)
            self.assertIn(says, last["error"])


if __name__ == "__main__":
    unittest.main()
