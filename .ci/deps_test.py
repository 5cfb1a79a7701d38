"""Tests of deps.py: python3 -B -m unittest discover -s .ci -p '*_test.py' (part of make lint)."""

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock
import zipfile

import deps


class InstallTest(unittest.TestCase):
    """A small wheel with a library, a header and a licence, and a registry that is a folder."""

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.root, self.cache = os.path.join(self.top, ".deps"), os.path.join(self.top, "cache")
        self.served = os.path.join(self.top, "demo-1.0-cp311-cp311-manylinux_2_27_x86_64.whl")
        with zipfile.ZipFile(self.served, "w") as archive:
            archive.writestr("demo/include/demo.h", "int demo(void);\n")
            archive.writestr("demo/libdemo.so.1.0", "a library")
            archive.writestr("demo/LICENSE", "MIT")
            archive.writestr("demo/other.py", "not needed")
        self.downloads, self.said = 0, []
        self.wheel = self.wheel_with("demo/include/*.h>include demo/libdemo.so.*>lib demo/LICENSE>licenses/demo")

    def wheel_with(self, members):
        with open(self.served, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        return deps.Wheel("demo", "1.0", "linux-amd64", os.path.basename(self.served), digest, members)

    def download(self, wheel, folder):
        self.downloads += 1
        shutil.copy(self.served, folder)

    def install(self, wheel=None, **more):
        return deps.install([wheel or self.wheel], "linux-amd64", self.root, self.cache,
                            download=more.get("download", self.download), say=self.said.append, extras=more.get("extras"))

    def inside(self, *path):
        return os.path.join(self.root, "linux-amd64", *path)

    def assert_nothing_half(self):
        self.assertFalse(os.path.exists(self.inside()))
        self.assertEqual([name for name in os.listdir(self.root) if name != ".lock"], [])

    def test_unpacks_what_is_named(self):
        self.assertTrue(self.install())
        found = sorted(line.split("\t")[0] for line in deps.inventory(self.inside()))
        self.assertEqual(found, ["include/demo.h", "lib/libdemo.so", "lib/libdemo.so.1.0", "licenses/demo/LICENSE"])
        self.assertEqual(os.readlink(self.inside("lib", "libdemo.so")), "libdemo.so.1.0")

    def test_second_run_does_nothing(self):
        self.install()
        self.assertFalse(self.install())
        self.assertEqual(self.downloads, 1)

    def test_lost_or_shortened_file_is_unpacked_again_from_the_cache(self):
        self.install()
        for harm in (os.remove, lambda path: os.truncate(path, 3)):
            harm(self.inside("lib", "libdemo.so.1.0"))
            self.assertTrue(self.install())
            with open(self.inside("lib", "libdemo.so"), encoding="utf-8") as f:
                self.assertEqual(f.read(), "a library")
        self.assertEqual(self.downloads, 1)

    def test_changed_table_unpacks_again(self):
        self.install()
        self.assertTrue(self.install(self.wheel_with("demo/LICENSE>licenses/demo")))
        self.assertFalse(os.path.exists(self.inside("lib")))

    def test_without_a_home_downloads_stay_in_the_clone(self):
        file = os.path.join(self.top, "file")
        open(file, "w").close()
        for number, cache in enumerate((os.path.join(file, "openclaw"), "/proc/openclaw", "~/.cache/openclaw")):
            self.cache, self.root = cache, os.path.join(self.top, ".deps%d" % number)
            self.assertTrue(self.install())
            spare = os.path.join(self.root, "cache")
            self.assertIn(self.wheel.file, os.listdir(spare))
            told = [line for line in self.said if "XDG_CACHE_HOME" in line]
            self.assertEqual(len(told), number + 1)
            self.assertIn(spare, told[-1])
            self.assertFalse(self.install())  # and says nothing then
            self.assertEqual(len([line for line in self.said if "XDG_CACHE_HOME" in line]), number + 1)
        self.assertFalse(os.path.exists("~"))

    def test_corrupt_cache_is_named_and_fetched_once_more(self):
        os.makedirs(self.cache)
        cached = os.path.join(self.cache, self.wheel.file)
        with open(cached, "w", encoding="utf-8") as f:
            f.write("half a wheel")
        self.assertTrue(self.install())
        self.assertEqual(self.downloads, 1)
        self.assertTrue(any(cached in line and "fetching it again" in line for line in self.said), self.said)

    def test_registry_with_another_file_is_refused(self):
        with zipfile.ZipFile(self.served, "a") as archive:
            archive.writestr("demo/evil.py", "")
        with self.assertRaisesRegex(deps.Failed, "demo 1.0 .*sha256 .*not used"):
            self.install()
        self.assertEqual(os.listdir(self.cache), [])
        self.assert_nothing_half()

    def test_no_network_leaves_nothing(self):
        def down(wheel, folder):
            raise deps.Failed("no network")
        with self.assertRaisesRegex(deps.Failed, "no network"):
            self.install(download=down)
        self.assert_nothing_half()

    def test_missing_member_is_named(self):
        with self.assertRaisesRegex(deps.Failed, r"no demo/gone\.h inside"):
            self.install(self.wheel_with("demo/LICENSE>licenses demo/gone.h>include"))
        self.assert_nothing_half()

    def test_tree_pattern_keeps_the_tree(self):
        with zipfile.ZipFile(self.served, "a") as archive:
            archive.writestr("demo/include/inner/part.h", "int part;\n")
            archive.writestr("demo/included.h", "not below include")
        self.assertTrue(self.install(self.wheel_with("demo/include/**>include demo/LICENSE>licenses")))
        found = sorted(line.split("\t")[0] for line in deps.inventory(self.inside()))
        self.assertEqual(found, ["include/demo.h", "include/inner/part.h", "licenses/LICENSE"])

    def test_tree_that_leads_out_is_refused(self):
        with zipfile.ZipFile(self.served, "a") as archive:
            archive.writestr("demo/include/../../../../evil.h", "int evil;\n")
        with self.assertRaisesRegex(deps.Failed, "evil.h leads out of the folder"):
            self.install(self.wheel_with("demo/include/**>include"))
        self.assert_nothing_half()
        self.assertFalse(os.path.exists(os.path.join(self.top, "evil.h")))

    def test_extras_lie_beside_the_members(self):
        extras = {"lib/libempty.a": deps.EMPTY_ARCHIVE, "lib/libtorch.so": b"INPUT(-lone)\n"}
        self.assertTrue(self.install(extras=extras))
        with open(self.inside("lib", "libtorch.so"), "rb") as f:
            self.assertEqual(f.read(), b"INPUT(-lone)\n")
        self.assertFalse(self.install(extras=extras))
        os.remove(self.inside("lib", "libempty.a"))
        self.assertTrue(self.install(extras=extras))
        self.assertTrue(self.install(extras=dict(extras, **{"lib/libtorch.so": b"INPUT(-ltwo)\n"})))
        self.assertTrue(self.install())
        self.assertFalse(os.path.exists(self.inside("lib", "libtorch.so")))

    def test_env_names_the_clones_own_folder(self):
        root = os.path.join(self.top, "a clone", ".deps")
        os.makedirs(root)
        deps.write_env(root, "linux-amd64-torch")
        path = os.path.join(root, "env")
        script = "set -eu; source '%s'; printf '%%s\\n%%s' \"$CGO_CXXFLAGS\" \"$CGO_LDFLAGS\"; test -z \"${torch:-}\"" % path
        cxx, ld = subprocess.run(["bash", "-c", script], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout.split("\n")
        place = os.path.join(root, "linux-amd64-torch")
        self.assertIn("'-I%s/include' " % place, cxx)
        self.assertIn("-D_GLIBCXX_USE_CXX11_ABI=0", cxx)
        self.assertEqual(ld, "'-L%s/lib' '-Wl,-rpath,%s/lib'" % (place, place))  # go splits it as a shell does
        old = os.stat(path)
        deps.write_env(root, "linux-amd64-torch")
        self.assertEqual(os.stat(path).st_mtime_ns, old.st_mtime_ns)
        self.assertEqual(sorted(os.listdir(root)), [".lock", "env"])

    def test_killed_unpack_is_cleared_by_the_next_run(self):
        for name in (".new-x", ".old-linux-amd64"):
            os.makedirs(os.path.join(self.root, name, "lib"))
        self.assertTrue(self.install())
        self.assertEqual(sorted(os.listdir(self.root)), [".lock", "linux-amd64"])

    def test_interrupted_unpack_keeps_the_old_tree(self):
        self.install()
        changed = self.wheel_with("demo/LICENSE>licenses demo/libdemo.so.*>lib")
        with unittest.mock.patch.object(deps.shutil, "copyfileobj", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.install(changed)
        self.assertTrue(deps.is_complete(self.inside(), [self.wheel], {}))
        self.assertEqual(sorted(os.listdir(self.root)), [".lock", "linux-amd64"])


class WordsTest(unittest.TestCase):
    def test_table_names_the_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
            f.write("# head\nonly\tthree\tcolumns\n")
            f.flush()
            with self.assertRaisesRegex(deps.Failed, ":2: 3 columns, want 6"):
                deps.read_table(f.name)

    def test_pinned_table(self):
        wheels = deps.read_table(os.path.join(deps.HERE, "deps.tsv"))
        for target in ("linux-amd64", "linux-arm64"):
            self.assertEqual([w.name for w in wheels if w.target == target], ["mujoco-core", "onnxruntime"])
        torch = [w for w in wheels if w.target == "linux-amd64-torch"]
        self.assertEqual([w.name for w in torch], ["torch", "nvidia-cuda-cupti-cu12", "nvidia-cuda-runtime-cu12"])
        self.assertEqual(torch[0].version, "2.1.0")  # gotch's; .deps/env's flags are this wheel's
        for wheel in wheels:
            self.assertRegex(wheel.sha256, "^[0-9a-f]{64}$")

    def test_architectures(self):
        self.assertEqual(deps.target_of("aarch64"), "linux-arm64")
        self.assertEqual(deps.target_of("amd64"), "linux-amd64")
        with self.assertRaisesRegex(deps.Failed, "ARCH=mips: want amd64 or arm64"):
            deps.target_of("mips")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(deps.main(["mips"]), 1)
        self.assertIn("deps: ARCH=mips", said.getvalue())

    def test_torch_where_there_is_none(self):
        for machine, want in (("aarch64", "deps: no libraries for linux-arm64-torch"), ("mips", "deps: ARCH=mips")):
            with unittest.mock.patch.object(deps.platform, "machine", return_value=machine):
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    self.assertEqual(deps.main(["torch"]), 1)
                self.assertIn(want, said.getvalue())

    def test_pip_is_asked_for_the_wheels_tags(self):
        for file, python, platforms in (("a-1-cp311-cp311-manylinux1_x86_64.whl", "311", ["manylinux1_x86_64"]),
                                        ("a-1-py3-none-manylinux1_x86_64.whl", "3", ["manylinux1_x86_64"]),
                                        ("a-1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", "311",
                                         ["manylinux_2_27_x86_64", "manylinux_2_28_x86_64"])):
            done = deps.subprocess.CompletedProcess([], 0, stdout="")
            with unittest.mock.patch.object(deps.subprocess, "run", return_value=done) as run:
                deps.pip_download(deps.Wheel("a", "1", "linux-amd64", file, "0", "a>b"), "/nowhere")
            command = run.call_args[0][0]
            self.assertEqual(command[command.index("--python-version") + 1], python)
            self.assertEqual([b for a, b in zip(command, command[1:]) if a == "--platform"], platforms)

    def test_pip_failures_are_sentences(self):
        wheel = deps.Wheel("demo", "1.0", "linux-amd64", "demo-1.0-cp311-cp311-manylinux_2_27_x86_64.whl", "0", "a>b")
        for output, want in (("/usr/bin/python3: No module named pip\n", "has no pip: install it"),
                             ("after connection broken by 'refused'\nERROR: No match\n", "no connection to the package registry: 'refused'"),
                             ("WARNING: x\nERROR: No matching distribution\n", "could not download.*No matching distribution"),
                             ("", "last words: none")):
            done = deps.subprocess.CompletedProcess([], 1, stdout=output)
            with unittest.mock.patch.object(deps.subprocess, "run", return_value=done):
                with self.assertRaisesRegex(deps.Failed, want):
                    deps.pip_download(wheel, "/nowhere")


if __name__ == "__main__":
    unittest.main()
