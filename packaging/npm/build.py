#!/usr/bin/env python3
"""Makes npm packages of the wheels in dist/: `warplite`, and one for each platform with its library.

    packaging/npm/build.py        # folders in build/npm, to be published by `npm publish`, platforms first
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from build_wheels import ROOT, TARGETS, version  # noqa: E402

# What npm calls a target's system, its processor and its C library.
PLATFORMS = {
    "linux-x86_64": ("linux", "x64", "glibc"),
    "linux-aarch64": ("linux", "arm64", "glibc"),
    "musl-x86_64": ("linux", "x64", "musl"),
    "musl-aarch64": ("linux", "arm64", "musl"),
    "macos-x86_64": ("darwin", "x64", None),
    "macos-arm64": ("darwin", "arm64", None),
    "windows-x86_64": ("win32", "x64", None),
}


def platform_package(name: str, wheel: Path, out: Path) -> str:
    """Makes the package of one platform and returns its name."""
    system, processor, libc = PLATFORMS[name]
    package = f"warplite-{'windows' if system == 'win32' else system}-{processor}{'-musl' if libc == 'musl' else ''}"
    library = TARGETS[name].library
    folder = out / package
    folder.mkdir(parents=True)
    (folder / library).write_bytes(zipfile.ZipFile(wheel).read(f"warplite/{library}"))
    fields = {
        "name": package, "version": version(), "description": f"warplite for {system} {processor}",
        "license": "Apache-2.0", "os": [system], "cpu": [processor], "files": [library],
    }  # fmt: skip
    if libc:
        fields["libc"] = [libc]
    (folder / "package.json").write_text(json.dumps(fields, indent=2) + "\n")
    return package


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist")
    parser.add_argument("--out", type=Path, default=ROOT / "build/npm")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    packages = []
    for name, target in TARGETS.items():
        for wheel in options.wheels.glob(f"warplite-{version()}-*-{target.platform}.whl"):
            packages.append(platform_package(name, wheel, options.out))
    shutil.copytree(HERE, options.out / "warplite", ignore=shutil.ignore_patterns("*.py", "__pycache__", "check.mjs"))
    manifest = options.out / "warplite/package.json"
    fields = json.loads(manifest.read_text())
    fields["version"] = version()
    fields["optionalDependencies"] = {package: version() for package in packages}
    manifest.write_text(json.dumps(fields, indent=2) + "\n")
    print(f"{options.out}: warplite, {', '.join(packages)}")


if __name__ == "__main__":
    main()
