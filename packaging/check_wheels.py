#!/usr/bin/env python3
"""Checks the wheels in a folder: what they hold and need, and that they run.

    packaging/check_wheels.py --amalgamation sqlite-amalgamation-3500000 [WHEEL …]

A wheel runs in SQLite's shell, compiled for its platform from the amalgamation (sqlite3.c and shell.c) by zig, which
executes check.sql: the output has to be check.expected to the last bit. What the platforms run on, where it is not
this machine: qemu-aarch64 with --arm-root (a folder with Debian's arm64 packages libc6 and musl unpacked), musl's
loader, wine64. A wheel for this machine is also installed in a clean environment; the GPU plug-in's with the one beside
it, where `warplite doctor` has to find it, and to say what it found. Wheels for macOS are inspected and not run.
--conformance builds the C++ conformance tests for each wheel's platform as well, and runs them.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from build_wheels import PLUGIN, ROOT, TARGETS, Target, configure, find_zig

HERE = Path(__file__).resolve().parent


class Contents(NamedTuple):
    most_bytes: int  # of the wheel
    names: set[str]  # that its library exports


EXTENSION_CONTENTS = Contents(3 << 20, {"sqlite3_warplite_init", "sqlite3_extension_init"})
PLUGIN_CONTENTS = Contents(100 << 20, {"warplite_plugin_abi", "warplite_plugin_open"})  # what registries take
SCRIPT = """
import sqlite3, warplite, numpy
db = warplite.connect(":memory:")
db.execute("CREATE VIRTUAL TABLE t USING warp(e FLOAT[4])")
db.executemany("INSERT INTO t(e) VALUES (?)", [(v.tobytes(),) for v in numpy.eye(4, dtype="f4")])
rowids, distances = warplite.search(db, "t", "e", numpy.eye(4, dtype="f4")[1:3], 1)
assert rowids.tolist() == [[2], [3]] and not distances.any(), (rowids, distances)
print(db.execute("SELECT warp_version()").fetchone()[0])
"""


class Problem(Exception):
    pass


def output_of(*command: object, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)  # type: ignore[call-overload]  # fmt: skip
    if done.returncode:
        raise Problem(f"{Path(str(command[0])).name} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return str(done.stdout)


def exported(library: Path) -> set[str]:
    """The names that a library exports, read from llvm's or binutils' listing of its dynamic symbols."""
    if library.suffix == ".dll":
        table = output_of("objdump", "-p", library).partition("[Ordinal/Name Pointer] Table")[2]
        return set(re.findall(r"^\s+\[\s*\d+\]\s+(?:\+base\[\s*\d+\]\s+\w+\s+)?(\w+)$", table.split("\n\n")[0], re.M))
    if library.suffix == ".dylib":
        import lief

        # zig's linker for macOS takes no list of names: the C++ library's operators and two of its own marks stay.
        binary = lief.parse(str(library))
        names = {symbol.name.removeprefix("_") for symbol in binary.exported_symbols}
        return {name for name in names if not re.match(r"_Z(nw|na|dl|da)|_mh_dylib_header|__dso_handle", name)}
    listing = output_of("readelf", "--dyn-syms", "--wide", library)
    return set(re.findall(r"(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+ (\w+)$", listing, re.M))


def inspect(wheel: Path, target: Target, library: Path, contents: Contents) -> None:
    size = wheel.stat().st_size
    if size > contents.most_bytes:
        raise Problem(f"{size} bytes, where {contents.most_bytes} are the most")
    names = exported(library)
    if not names or names - contents.names:
        raise Problem(f"exports {sorted(names)}, expected {sorted(contents.names)}")
    if "linux" in target.platform:
        tag = target.platform.split(".")[0]
        shown = " ".join(output_of(sys.executable, "-m", "auditwheel", "show", wheel).split())
        if f'platform tag: "{tag}"' not in shown:
            raise Problem(f"auditwheel does not agree that it is {tag}: {shown}")


def emulator(name: str, options: argparse.Namespace) -> list[str]:
    """What a program for the platform is run by."""
    here = platform.machine()
    if name.startswith("windows"):
        return [shutil.which("wine64") or "/usr/lib/wine/wine64"]
    if name.endswith("aarch64") and here not in ("aarch64", "arm64"):
        return [shutil.which("qemu-aarch64") or "qemu-aarch64-static", "-L", str(options.arm_root)]
    return []


def shell(name: str, target: Target, options: argparse.Namespace) -> Path:
    program = options.work / f"shell-{name}{'.exe' if name.startswith('windows') else ''}"
    if not program.exists():
        source = options.amalgamation
        dynamic = ["-dynamic"] if name.startswith("musl") else []  # zig links musl statically, which cannot load
        output_of(find_zig(), "cc", "-target", target.zig, *dynamic, "-O1", "-g0", "-w",
                  source / "shell.c", source / "sqlite3.c", "-o", program, "-lm")  # fmt: skip
    return program


def run_in_shell(name: str, target: Target, library: Path, options: argparse.Namespace) -> None:
    statements = f".load ./{library.stem}\n" + (HERE / "check.sql").read_text()
    run = {"cwd": library.parent, "env": {**os.environ, "WINEDEBUG": "-all"}}
    if name.startswith("windows"):  # Wine's first program makes a folder, and Wine says so
        output_of(*emulator(name, options), shell(name, target, options), input="", **run)
    got = output_of(*emulator(name, options), shell(name, target, options), input=statements, **run)
    expected = (HERE / "check.expected").read_text()
    if got.split() != expected.split():
        raise Problem(f"printed\n{got}\nexpected\n{expected}")


def install(interpreter: str, wheels: list[object], *arguments: str) -> str:
    """Installs wheels in a clean environment, and returns what its Python prints."""
    with tempfile.TemporaryDirectory() as folder:
        output_of(interpreter, "-m", "venv", folder)
        python = Path(folder) / "bin/python"
        output_of(python, "-m", "pip", "install", "--quiet", *wheels)
        return output_of(python, *arguments, cwd=folder)


def conform(name: str, target: Target, options: argparse.Namespace) -> str:
    """Runs the tests that compare every device and instruction set with the definition of each operation."""
    folder = options.work / name  # where the library was built
    shutil.copytree(options.doctest, options.work / "include/doctest", dirs_exist_ok=True)
    configure(target, folder, options, "-DWARPLITE_CONFORMANCE=ON",
              f"-DSQLITE_AMALGAMATION={options.amalgamation.resolve()}")
    output_of("cmake", "--build", folder, "--target", "warplite_conformance", "--parallel", options.jobs)
    program = next(path for path in (folder / "tests/conformance").glob("warplite_conformance*") if path.is_file())
    report = output_of(*emulator(name, options), program, env={**os.environ, "WINEDEBUG": "-all"})
    return " ".join(re.search(r"test cases:(.*)", report)[1].split())  # type: ignore[index]


def check_plugin(wheel: Path, options: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        inspect(wheel, PLUGIN, Path(folder) / "warplite_cuda" / PLUGIN.library, PLUGIN_CONTENTS)
    extension = next(wheel.parent.glob(f"warplite-*-{PLUGIN.platform}.whl"), None)
    if extension is None or platform.machine() != "x86_64":
        return "inspected, not run"
    said = install(options.python, [extension, wheel], "-m", "warplite", "doctor")
    found = re.search(r"^plug-in +\S*/warplite_cuda/warplite_cuda\.so$", said, re.M)
    gpus = re.search(r"^(?:gpu|cuda)\S* +(.+)$", said, re.M)
    if not found or not gpus:
        raise Problem(f"`warplite doctor` says\n{said}")
    return f"inspected, installed; GPUs here: {gpus[1]}"


def check(wheel: Path, options: argparse.Namespace) -> str:
    if wheel.name.startswith("warplite_cuda"):
        return check_plugin(wheel, options)
    name, target = next(item for item in TARGETS.items() if wheel.stem.endswith(item[1].platform))
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        library = Path(folder) / "warplite" / target.library
        inspect(wheel, target, library, EXTENSION_CONTENTS)
        if name.startswith("macos"):
            return "inspected, not run"
        run_in_shell(name, target, library, options)
    done = "inspected, run"
    if name == f"linux-{platform.machine()}":
        install(options.python, [wheel], "-c", SCRIPT)
        done += ", installed"
    if options.conformance:
        done += f", conformance tests: {conform(name, target, options)}"
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="*", type=Path, help="default: all in dist/")
    parser.add_argument("--amalgamation", type=Path, required=True, help="the folder of sqlite3.c and shell.c")
    parser.add_argument("--arm-root", type=Path, default=Path("/opt/arm64"))
    parser.add_argument("--doctest", type=Path, default=Path("/usr/include/doctest"), help="the folder of doctest.h")
    parser.add_argument("--sqlite", type=Path, default=Path("/usr/include"), help="the folder of sqlite3ext.h")
    parser.add_argument("--highway", type=Path, default=Path("/usr/include"), help="the folder of hwy/highway.h")
    parser.add_argument("--work", type=Path, default=ROOT / "build/wheels")
    parser.add_argument("--python", default=sys.executable, help="one whose sqlite3 loads extensions")
    parser.add_argument("--jobs", default=os.cpu_count(), type=int)
    parser.add_argument("--conformance", action="store_true")
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    failed = False
    for wheel in options.wheels or sorted((ROOT / "dist").glob("warplite*.whl")):
        try:
            print(f"{wheel.name} ({wheel.stat().st_size:,} bytes): {check(wheel, options)}", flush=True)
        except Problem as problem:
            failed = True
            print(f"{wheel.name}: FAILED: {problem}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
