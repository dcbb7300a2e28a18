#!/usr/bin/env python3
"""Builds the documentation's site: mkdocs build --strict fails at a link or an anchor that leads nowhere.

usage: site.py FOLDER

FOLDER keeps a virtual environment with mkdocs-material, and the site. Ends with 77 where that cannot be had.
"""
import os
import subprocess
import sys
import venv

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77  # ctest's, of a test that cannot run here


def main():
    folder = os.path.abspath(sys.argv[1])
    program = os.path.join(folder, 'bin', 'mkdocs')
    if not os.path.exists(program):
        try:
            venv.create(folder, with_pip=True)
            subprocess.run([os.path.join(folder, 'bin', 'pip'), 'install', '--quiet', 'mkdocs-material'], check=True)
        except (subprocess.CalledProcessError, OSError):
            print('skipped: mkdocs-material cannot be had, as where there is no python3-venv or no network')
            return SKIPPED
    return subprocess.run([program, 'build', '--strict', '--site-dir', os.path.join(folder, 'site')], cwd=ROOT).returncode


sys.exit(main())
