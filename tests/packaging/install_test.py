#!/usr/bin/env python3
"""What is installed can be loaded and linked: the examples of examples/linked are built against it and run.

usage: install_test.py BUILD [--whole] [CMAKE_ARGUMENT…]

BUILD: a build folder. With --whole, Warplite is built from a project that has it in a folder, too, which takes minutes;
otherwise that project is configured only. Arguments go to cmake where it configures.
"""
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples', 'linked')
EXPECTED = 'rowid=1 colour=red distance=1.4142135623731\nrowid=3 colour=red distance=2.0\n'
ENTRIES = {'sqlite3_warplite_init', 'sqlite3_extension_init'}


def run(*command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f'FAILED: {" ".join(command)}\n{done.stdout}')
    return done.stdout


def check(what, got, expected):
    if got != expected:
        sys.exit(f'FAILED: {what}: expected {expected!r}, got {got!r}')
    print('holds:', what)


def check_loadable(file):
    if shutil.which('nm'):
        shown = {line.split()[-1] for line in run('nm', '-D', '--defined-only', file).splitlines()}
        check('the entry points are all that the extension shows', shown, ENTRIES)
    if hasattr(sqlite3.Connection, 'load_extension'):
        db = sqlite3.connect(':memory:')
        db.enable_load_extension(True)
        db.load_extension(os.path.splitext(file)[0])
        check('the extension is loaded', db.execute("SELECT vec_distance_l2('[0]', '[2]')").fetchall(), [(2.0,)])


def build(example, here, *arguments, target='search'):
    folder = os.path.join(here, example)
    run('cmake', '-S', os.path.join(EXAMPLES, example), '-B', folder, *arguments)
    run('cmake', '--build', folder, '--target', target)
    return folder


def main():
    build_folder, *arguments = sys.argv[1:]
    whole = '--whole' in arguments
    arguments = [argument for argument in arguments if argument != '--whole']
    with tempfile.TemporaryDirectory() as here:
        prefix = os.path.join(here, 'prefix')
        run('cmake', '--install', build_folder, '--prefix', prefix)

        folder = build('find_package', here, f'-DCMAKE_PREFIX_PATH={prefix}', *arguments)
        check('find_package', run(os.path.join(folder, 'search')), EXPECTED)
        with open(os.path.join(folder, 'loadable.txt')) as text:
            file = text.read()
        check('where CMake says that it is', file.startswith(prefix), True)
        check_loadable(file)

        if shutil.which('pkg-config') and shutil.which('make'):
            program = os.path.join(here, 'pkg_config')
            shutil.copytree(os.path.join(EXAMPLES, 'pkg_config'), program)
            shutil.copy(os.path.join(EXAMPLES, 'search.c'), here)
            paths = [os.path.join(os.path.dirname(file), 'pkgconfig'), os.environ.get('PKG_CONFIG_PATH', '')]
            run('make', '-C', program, PKG_CONFIG_PATH=':'.join(filter(None, paths)))
            check('pkg-config', run(os.path.join(program, 'search')), EXPECTED)

        folder = build('add_subdirectory', here, *arguments, target='search' if whole else 'warplite_core')
        if whole:
            check('add_subdirectory', run(os.path.join(folder, 'search')), EXPECTED)


main()
