"""Unpacks the native libraries of deps.tsv into .deps/<os-arch>/{include,lib,licenses}.

    PyPI --pip download--> cache (sha256 checked) --zipfile--> .deps/.new-... --rename--> .deps/linux-amd64

`make deps` runs it as `python3 .ci/deps.py [amd64|arm64]`, `make deps-torch` as `python3 .ci/deps.py torch`: libtorch for this
machine in .deps/<os-arch>-torch, and .deps/env, the cgo flags of what is built with tag torch. Wheels stay in $XDG_CACHE_HOME/openclaw (~/.cache/openclaw), so a
second clone or a `make clean` fetches nothing again; where nothing can be written there, in .deps/cache. Nothing is installed: pip
only downloads, for any architecture on any.
Python 3.8 or later, standard library and pip only.
"""

import contextlib
import fcntl
import fnmatch
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ARCHES = {"amd64": "amd64", "x86_64": "amd64", "arm64": "arm64", "aarch64": "arm64"}
STAMP = "unpacked.tsv"  # what was unpacked and from what; written last

# gotch names the CUDA libraries of a GPU build to the linker whether they are wanted or not. Empty archives answer to those names,
# and libtorch.so, which in the wheel only holds the CUDA and CPU halves together, becomes a linker script for the CPU half.
EMPTY_ARCHIVE = b"!<arch>\n"
CUDA_NAMES = ("cuda", "cublas", "cudnn", "caffe2_nvrtc", "nvrtc", "nvrtc-builtins", "nvToolsExt", "c10_cuda", "torch_cuda")
TORCH_EXTRAS = {"lib/lib%s.a" % name: EMPTY_ARCHIVE for name in CUDA_NAMES}
TORCH_EXTRAS["lib/libtorch.so"] = b"INPUT(-ltorch_cpu -lc10)\n"

# The wheel's C++ has the string ABI of before GCC 5.
TORCH_ENV = """# Made by make deps-torch: source it before go build -tags torch. Go's build cache takes other flags for another build
# of gotch, which takes minutes: this file is the only place for them.
torch=%(folder)s
export CGO_CXXFLAGS="'-I$torch/include' '-I$torch/include/torch/csrc/api/include' -D_GLIBCXX_USE_CXX11_ABI=0"
export CGO_LDFLAGS="'-L$torch/lib' '-Wl,-rpath,$torch/lib'"
unset torch
"""


class Failed(Exception):
    """A sentence for the person at the keyboard."""


class Wheel:
    """One line of deps.tsv."""

    def __init__(self, name, version, target, file, sha256, members):
        self.name, self.version, self.target, self.file, self.sha256 = name, version, target, file, sha256
        self.members = [tuple(m.split(">", 1)) for m in members.split(" ")]  # (pattern in the wheel, folder in .deps)

    def __str__(self):
        return "%s %s (%s)" % (self.name, self.version, self.target)


def read_table(path):
    """The wheels of deps.tsv, in order."""
    wheels = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            if len(fields) != 6:
                raise Failed("%s:%d: %d columns, want 6" % (path, number, len(fields)))
            wheels.append(Wheel(*fields))
    return wheels


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def pip_download(wheel, folder):
    """Has pip put the wheel's file into folder."""
    python_tag, platforms = re.match(r".*-(?:cp|py)(\d+)-[^-]+-([^-]+)\.whl$", wheel.file).groups()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary=:all:", "--python-version", python_tag, "-d", folder]
    for tag in platforms.split("."):
        command += ["--platform", tag]
    done = subprocess.run(command + ["%s==%s" % (wheel.name, wheel.version)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode == 0:
        return
    if "No module named pip" in done.stdout:
        raise Failed("%s has no pip: install it (Debian: apt-get install python3-pip), then run make deps" % sys.executable)
    said = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    broken = [line.split("connection broken by ", 1)[1] for line in said if "connection broken by " in line]
    if broken:  # pip goes on to call it a missing version
        raise Failed("%s: no connection to the package registry: %s" % (wheel, broken[-1]))
    raise Failed("%s: pip could not download it; pip's last words: %s" % (wheel, said[-1] if said else "none"))


def writable(cache, spare, say):
    """The cache, or the spare folder where there is no home or it cannot be written to."""
    try:
        if not os.path.isabs(cache):  # "~" of a user without a home
            raise OSError("%s: no home folder" % cache)
        os.makedirs(cache, exist_ok=True)
        tempfile.TemporaryFile(dir=cache).close()
        return cache
    except OSError as problem:
        say("downloads go to %s, set XDG_CACHE_HOME to share them between clones (%s)" % (spare, problem))
        return spare


def fetch(wheel, cache, download, say):
    """Path of the wheel's file in the cache, with the hash deps.tsv wants; downloaded if need be."""
    path = os.path.join(cache, wheel.file)
    if os.path.exists(path):
        got = sha256_of(path)
        if got == wheel.sha256:
            return path
        os.remove(path)
        say("%s: sha256 is %s, want %s: removed, fetching it again" % (path, got, wheel.sha256))
    say("fetching %s into %s" % (wheel, cache))
    os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as folder:
        download(wheel, folder)
        fresh = os.path.join(folder, wheel.file)
        if not os.path.exists(fresh):
            raise Failed("%s: want %s, the registry served %s" % (wheel, wheel.file, sorted(os.listdir(folder))))
        got = sha256_of(fresh)
        if got != wheel.sha256:
            raise Failed("%s: the registry's file has sha256 %s, .ci/deps.tsv wants %s: not used" % (wheel, got, wheel.sha256))
        os.replace(fresh, path)  # whole or not there, also with two clones fetching at once
    return path


def unpack(wheel, path, folder):
    """Copies the wheel's members into folder; a library lib/libX.so.N also gets the link libX.so.

    A pattern that ends in /** keeps the tree below it; of any other only the file names are kept.
    """
    with zipfile.ZipFile(path) as archive:
        for pattern, place in wheel.members:
            stem = pattern[:-2] if pattern.endswith("/**") else ""
            names = [n for n in archive.namelist() if not n.endswith("/")
                     and (n.startswith(stem) if stem else fnmatch.fnmatch(n, pattern))]
            if not names:
                raise Failed("%s: no %s inside" % (path, pattern))
            for name in names:
                target = os.path.join(folder, place, name[len(stem):] if stem else os.path.basename(name))
                if not os.path.realpath(target).startswith(os.path.realpath(folder) + os.sep):
                    raise Failed("%s: %s leads out of the folder" % (path, name))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with archive.open(name) as source, open(target, "wb") as sink:
                    shutil.copyfileobj(source, sink)
                plain = re.match(r"(lib.+\.so)\..+$", os.path.basename(name))
                if plain:
                    os.symlink(os.path.basename(name), os.path.join(folder, place, plain.group(1)))


def inventory(folder):
    """Lines "path<TAB>size" of everything under folder, the stamp aside; a link that leads nowhere has size -1."""
    lines = []
    for parent, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(parent, name)
            if name != STAMP:
                size = os.stat(path).st_size if os.path.exists(path) else -1
                lines.append("%s\t%d\n" % (os.path.relpath(path, folder), size))
    return sorted(lines)


def sources(wheels, extras):
    return ["# %s %s\n" % (w.sha256, w.members) for w in wheels] + ["# %s %r\n" % extra for extra in sorted(extras.items())]


def is_complete(folder, wheels, extras):
    """Whether folder holds what these wheels unpack to and the extras, by names and sizes."""
    try:
        with open(os.path.join(folder, STAMP), encoding="utf-8") as f:
            return f.readlines() == sources(wheels, extras) + inventory(folder)
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def locked(folder):
    """One deps.py at a time per clone; the kernel drops the lock with the process."""
    with open(os.path.join(folder, ".lock"), "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def install(wheels, target, root, cache, download=pip_download, say=lambda line: None, extras=None):
    """Makes root/target hold the wheels' members. Unpacks aside and renames, so root/target is whole or absent.

    extras are files of our own beside them, path to content. Returns whether anything had to be done.
    """
    wheels, extras = [w for w in wheels if w.target == target], extras or {}
    if not wheels:
        raise Failed("no libraries for %s in .ci/deps.tsv" % target)
    os.makedirs(root, exist_ok=True)
    with locked(root):
        for leftover in os.listdir(root):
            if leftover.startswith((".new-", ".old-")):  # of a run that was killed
                shutil.rmtree(os.path.join(root, leftover))
        final = os.path.join(root, target)
        if is_complete(final, wheels, extras):
            return False
        cache = writable(cache, os.path.join(root, "cache"), say)
        fresh = tempfile.mkdtemp(prefix=".new-", dir=root)
        try:
            os.chmod(fresh, 0o755)
            for wheel in wheels:
                unpack(wheel, fetch(wheel, cache, download, say), fresh)
            for path, content in extras.items():
                with open(os.path.join(fresh, path), "wb") as f:
                    f.write(content)
            with open(os.path.join(fresh, STAMP), "w", encoding="utf-8") as f:
                f.writelines(sources(wheels, extras) + inventory(fresh))
        except BaseException:
            shutil.rmtree(fresh)
            raise
        if os.path.lexists(final):
            os.rename(final, os.path.join(root, ".old-" + target))
        os.rename(fresh, final)
        shutil.rmtree(os.path.join(root, ".old-" + target), ignore_errors=True)
        return True


def target_of(arch):
    """"linux-amd64" from the word given to make, or from this machine when there is none."""
    if not arch:
        if platform.system() != "Linux":
            raise Failed("this is %s: the libraries are Linux's; name one: make deps ARCH=amd64" % platform.system())
        arch = platform.machine()
    if arch not in ARCHES:
        raise Failed("ARCH=%s: want amd64 or arm64" % arch)
    return "linux-" + ARCHES[arch]


def write_env(root, target):
    """Writes root/env for the libtorch in root/target, unless it is there already."""
    path, text = os.path.join(root, "env"), TORCH_ENV % {"folder": shlex.quote(os.path.join(root, target))}
    with locked(root):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                if f.read() == text:
                    return
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(path + ".new", path)


def main(arguments):
    def say(line):
        print("deps: " + line, flush=True)

    try:
        if len(arguments) > 1:
            raise Failed("usage: deps.py [amd64|arm64|torch]")
        torch = arguments == ["torch"]
        target = target_of("") + "-torch" if torch else target_of(arguments[0] if arguments else "")
        root = os.path.join(os.path.dirname(HERE), ".deps")
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "openclaw")
        table = read_table(os.path.join(HERE, "deps.tsv"))
        if install(table, target, root, cache, say=say, extras=TORCH_EXTRAS if torch else None):
            say("%s is ready" % os.path.join(".deps", target))
        if torch:
            write_env(root, target)
    except (Failed, OSError, zipfile.BadZipFile) as problem:
        print("deps: %s" % problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
