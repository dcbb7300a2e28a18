#!/usr/bin/env python3
"""Makes every artefact of a release, and SHA256SUMS of them all.

    pip install -r packaging/requirements.txt
    packaging/release.py                      # all of them, in dist/
    packaging/release.py source deb           # some

source: the sources as an archive; deb: a Debian package for this machine; sdist: the Python package's sources; wheels:
those of build_wheels.py; cuda: the wheel of the GPU plug-in, where there is an nvcc; npm: the packages of npm/build.py,
which need the wheels. A whole release is made of what is committed, whose version CHANGELOG.md knows.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from build_wheels import ROOT, version


def run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(part) for part in command)}: failed\n{done.stdout}")
    return done.stdout


def source(options: argparse.Namespace) -> None:
    name = f"warplite-{version()}"
    run("git", "archive", "--format=tar.gz", f"--prefix={name}/", "-o", options.out / f"{name}-source.tar.gz", "HEAD")


def deb(options: argparse.Namespace) -> None:
    if not (options.build / "CMakeCache.txt").exists():
        run("cmake", "-S", ROOT, "-B", options.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_INSTALL_PREFIX=/usr")
    known = run("cmake", "--build", options.build, "--target", "help")
    plugin = ["warplite_cuda"] if "warplite_cuda: phony" in known else []  # where there is an nvcc
    run("cmake", "--build", options.build, "--target", "warplite", "warplite_static", *plugin)
    made = options.build / "packages"
    shutil.rmtree(made, ignore_errors=True)
    run("cpack", "--config", options.build / "CPackConfig.cmake", "-G", "DEB", "-B", made)
    for package in made.glob("*.deb"):
        shutil.copy(package, options.out)


def sdist(options: argparse.Namespace) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", options.out, cwd=ROOT / "python")


def wheels(options: argparse.Namespace) -> None:
    run(sys.executable, ROOT / "packaging/build_wheels.py", "--out", options.out)


def cuda(options: argparse.Namespace) -> None:
    if shutil.which("nvcc") is None:
        print("no nvcc: without the wheel of the GPU plug-in")
        return
    run(sys.executable, ROOT / "packaging/build_wheels.py", "--out", options.out, "cuda")


def npm(options: argparse.Namespace) -> None:
    made = options.build / "npm"
    run(sys.executable, ROOT / "packaging/npm/build.py", "--wheels", options.out, "--out", made)
    for package in sorted(made.iterdir()):
        with tarfile.open(options.out / f"npm-{package.name}-{version()}.tgz", "w:gz") as archive:
            archive.add(package, "package")  # as `npm pack` has it


STEPS = {step.__name__: step for step in (source, deb, sdist, wheels, cuda, npm)}


def check_release() -> None:
    if run("git", "status", "--porcelain"):
        sys.exit("a release is made of what is committed: git status shows more")
    if f"## {version()}\n" not in (ROOT / "CHANGELOG.md").read_text():
        sys.exit(f"CHANGELOG.md has no part called {version()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{', '.join(STEPS)}; default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where everything goes")
    parser.add_argument("--build", type=Path, default=ROOT / "build/package", help="where the Debian package is built")
    options = parser.parse_args()
    unknown = set(options.steps) - set(STEPS)
    if unknown:
        parser.error(f"no step {', '.join(sorted(unknown))}")
    if not options.steps:
        check_release()
    options.out, options.build = options.out.resolve(), options.build.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, step in STEPS.items():
        if name in (options.steps or STEPS):
            print(name, flush=True)
            step(options)
    files = sorted(path for path in options.out.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (options.out / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main()
