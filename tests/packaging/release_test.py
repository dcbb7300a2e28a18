#!/usr/bin/env python3
"""Archives and packages of a release are made, and their checksums are theirs.

usage: release_test.py BUILD

Wheels, which take cross compilers, have checks of their own (packaging/check_wheels.py).
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

SKIPPED = 77
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
INSTALLED = ('/usr/lib/warplite.so', '/usr/lib/libwarplite.a', '/usr/include/warplite.h', '/warplite.pc', '/warplite-config.cmake')


def run(*command):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f'FAILED: {" ".join(command)}\n{done.stdout}')
    return done.stdout


def main():
    if not os.path.exists(os.path.join(ROOT, '.git')) or not shutil.which('git'):
        print('skipped: these sources are not a repository of git')
        return SKIPPED
    steps = ['source'] + (['deb'] if shutil.which('dpkg-shlibdeps') and shutil.which('dpkg-deb') else [])
    with tempfile.TemporaryDirectory() as out:
        run(sys.executable, os.path.join(ROOT, 'packaging', 'release.py'), *steps, '--out', out, '--build', sys.argv[1])
        with open(os.path.join(out, 'SHA256SUMS')) as text:
            sums = [line.rstrip('\n').split('  ') for line in text]
        for digest, name in sums:
            with open(os.path.join(out, name), 'rb') as file:
                if hashlib.sha256(file.read()).hexdigest() != digest:
                    sys.exit(f'FAILED: the checksum of {name}')
        names = [name for _, name in sums]
        (archive,) = (name for name in names if name.endswith('-source.tar.gz'))
        with tarfile.open(os.path.join(out, archive)) as sources:
            if archive.replace('-source.tar.gz', '/CMakeLists.txt') not in sources.getnames():
                sys.exit(f'FAILED: {archive} holds {sources.getnames()[:5]} …')
        if 'deb' in steps:
            (package,) = (name for name in names if name.endswith('.deb'))
            held = run('dpkg-deb', '--contents', os.path.join(out, package))
            for file in INSTALLED:
                if file not in held:
                    sys.exit(f'FAILED: {package} lacks {file}\n{held}')
        print('made:', ', '.join(names))


sys.exit(main())
