"""Tests of pairs.py: python3 -B -m unittest discover -s sim/peers -p '*_test.py' (part of make lint)."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

import pairs

SIDES = (pairs.Side("peer", "The peer"), pairs.Side("ours", "Ours"))


def measured(speed):
    return {"steps_per_s": speed, "cpu_us_per_step": 2e6 / speed, "rss_mb": 10.0}


class PairsTest(unittest.TestCase):

    def test_quartiles(self):
        self.assertEqual(pairs.quartiles([7, 1, 3, 2, 6, 4, 5]), {"median": 4, "lower": 2.5, "upper": 5.5})
        self.assertEqual(pairs.quartiles([3.5]), {"median": 3.5, "lower": 3.5, "upper": 3.5})
        self.assertEqual(pairs.quartiles([1, 2]), {"median": 1.5, "lower": 1.25, "upper": 1.75})
        with self.assertRaises(ValueError):
            pairs.quartiles([])

    def test_pairs_alternate(self):
        first = [order[0].key for order in pairs.orders(SIDES, 7)]
        self.assertEqual(first, ["peer", "ours"] * 3 + ["peer"])

    def test_in_pairs(self):
        said, begun = [], []

        def measure(key, speed):
            def one(number):
                said.append((number, key))
                return measured(speed * number)
            return one

        with contextlib.redirect_stdout(io.StringIO()) as out:
            found = pairs.in_pairs(SIDES, {"peer": measure("peer", 100), "ours": measure("ours", 250)}, 2, lambda number, pair: begun.append((number, pair)))
        self.assertEqual(said, [(1, "peer"), (1, "ours"), (2, "ours"), (2, "peer")])
        self.assertEqual([p["ratio"] for p in found], [2.5, 2.5])
        self.assertEqual(begun, list(enumerate(found, 1)))
        self.assertIn("pair 2, Ours first: The peer 200, Ours 500 steps/s, ratio 2.50", out.getvalue())

    def test_summary(self):
        three = [{"peer": measured(100), "ours": measured(speed), "ratio": speed / 100} for speed in (200, 400, 300)]
        found = pairs.summary(SIDES, "a title", three, [], 2, 3)
        self.assertEqual((found["ok"], found["ratio"]["median"], found["ratio"]["lower"]), (True, 3.0, 2.5))
        self.assertAlmostEqual(found["cpu_ratio"]["median"], 3.0)
        self.assertEqual((found["ours_steps_per_s"]["median"], found["peer_rss_mb"]), (300, 10.0))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            pairs.print_summary(SIDES, found)
        self.assertIn("ratio        3.00 (quartiles 2.50 .. 3.50) over 3 pairs; wanted 2, aim 3", out.getvalue())
        self.assertFalse(pairs.summary(SIDES, "a title", three, ["other work"], 2, 3)["ok"])

    def test_settings(self):
        settings = {"peer": {"a": 1, "b": 2, "c": None}, "ours": {"a": 1, "b": 3}}
        self.assertEqual(pairs.unequal(SIDES, settings, ["a", "b", "c"]),
                         ["b: The peer has 2, Ours has 3", "c: The peer has null, Ours has null"])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            pairs.print_settings(SIDES, settings, [("a", "first"), ("b", "second one")])
        self.assertEqual([line.split("  ")[-1].strip() for line in out.getvalue().splitlines()], ["The peer | Ours", "1", "2 | 3"])

    def test_text(self):
        for value, want in ((0.004, "0.004"), (True, "yes"), (False, "no"), (None, "-"), (1, "1"), ("euler", "euler"),
                            ([1.5, 2], "1.5 2"), ({"b": 0.5, "a": 0}, "b 0.5"), ({"a": 0}, "none")):
            self.assertEqual(pairs.text(value), want)


class LastJSONTest(unittest.TestCase):

    def test_last_line(self):
        self.assertEqual(pairs.last_json('note\n{"a": 1}\n'), {"a": 1})
        for text in ("", "\n", "words", '{"a": 1}\nwords', "[1]", "3"):
            with self.assertRaises(pairs.Failed, msg=text):
                pairs.last_json(text)


class ProcessTest(unittest.TestCase):

    def script(self, text):
        f = tempfile.NamedTemporaryFile("w", suffix=".py", delete=False, encoding="utf-8")
        self.addCleanup(os.unlink, f.name)
        with f:
            f.write(text)
        return f.name

    def test_worker(self):
        script = self.script("import json, os, sys\nprint(json.dumps({'said': sys.argv[1:] + [os.environ['PAIRS_TEST']]}), flush=True)\n"
                             "for line in sys.stdin: print(json.dumps({'twice': 2 * int(line)}), flush=True) if line != 'end\\n' else sys.exit(4)\n")
        with pairs.Worker(script, ["one", "two"], {"PAIRS_TEST": "three"}) as worker:
            self.assertEqual(worker.answer(), {"said": ["one", "two", "three"]})
            self.assertEqual([worker.ask("3"), worker.ask("4")], [{"twice": 6}, {"twice": 8}])
            with self.assertRaisesRegex(pairs.Failed, "ended with 4"):
                worker.ask("end")

    def test_worker_that_ends(self):
        with pairs.Worker(self.script("raise SystemExit(7)"), []) as worker:
            with self.assertRaisesRegex(pairs.Failed, "ended with 7"):
                worker.answer()
            with self.assertRaisesRegex(pairs.Failed, "ended with 7"):
                worker.ask("1")

    def test_program(self):
        self.assertEqual(pairs.program([sys.executable, "-c", "print('words'); print('{\"a\": 1}')"]), {"a": 1})
        for code, want in ((1, 1), (2, 1), (3, 3)):
            with self.assertRaisesRegex(pairs.Failed, "ended with %d" % code) as caught:
                pairs.program([sys.executable, "-c", "raise SystemExit(%d)" % code])
            self.assertEqual(caught.exception.code, want)

    def test_keep(self):
        with tempfile.TemporaryDirectory() as top:
            pairs.keep(os.path.join(top, "new"), "one", {"a": [1]})
            with open(os.path.join(top, "new", "one.json"), encoding="utf-8") as f:
                self.assertEqual(json.load(f), {"a": [1]})

    def test_main(self):
        def fails(error):
            def run(_):
                raise error
            return run

        for run, code in ((lambda args: 0 if args == ["x"] else 5, 0), (fails(pairs.Failed("no", 3)), 3), (fails(KeyboardInterrupt()), 130)):
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(pairs.main(["x"], lambda argv: argv, run), code)
            if code == 3:
                self.assertEqual(json.loads(out.getvalue()), {"ok": False, "error": "no", "exit_code": 3})


if __name__ == "__main__":
    unittest.main()
