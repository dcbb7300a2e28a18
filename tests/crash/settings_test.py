#!/usr/bin/env python3
"""Settings that hold for a process and cannot be taken back: external_access and lock_configuration.

usage: settings_test.py path/to/warplite.so
"""
import os
import sqlite3
import struct
import sys
import tempfile

import common


def apart(body):
    """Runs body(tally) in a process of its own; its checks end there. True when all held."""
    child = os.fork()
    if child == 0:
        tally = common.Tally()
        try:
            body(tally)
        except Exception as error:  # the parent counts it
            tally.check(False, f'{body.__name__}: {error!r}')
        os._exit(1 if tally.failed else 0)
    return os.waitpid(child, 0)[1] == 0


def refused(db, sql, part):
    try:
        db.execute(sql).fetchall()
    except sqlite3.Error as error:
        return part in str(error)
    return False


def value(db, sql):
    return db.execute(sql).fetchone()[0]


def external_access(tally):
    db, other = (common.connect(':memory:', common.extension_path()) for _ in range(2))
    with tempfile.NamedTemporaryFile(suffix='.fvecs') as file:
        file.write(struct.pack('<iff', 2, 1.0, 2.0))
        file.flush()
        read = f"SELECT vec_to_json(vector) FROM warp_vectors_file('{file.name}')"
        tally.check(value(db, read) == '[1.000000,2.000000]', 'a file is read')
        tally.check(value(db, "SELECT warp_config('external_access')") == 1, 'it is 1 at first')
        tally.check(value(db, "SELECT warp_config('external_access', 1)") == 1, '1 again is no change')
        tally.check(value(db, "SELECT warp_config('external_access', 0)") == 0, 'it becomes 0')
        for connection in (db, other, common.connect(':memory:', common.extension_path())):
            tally.check(refused(connection, read, 'external_access'), 'no connection reads a file')
            tally.check(refused(connection, "SELECT * FROM warp_vectors_file('/dev/nothing.fvecs')", 'external_access'),
                        'nor says whether there is one')
        tally.check(refused(other, "SELECT warp_config('external_access', 1)", 'cannot be taken back'), 'it stays')
        tally.check(value(other, "SELECT warp_config('external_access', 'off')") == 0, '0 again is no change')
        tally.check(value(other, "SELECT warp_config('threads', 1)") == 1, 'other settings change')
        tally.check(refused(other, "SELECT warp_config('external_access', 2)", "expected 'on', 'off', 1 or 0"), 'no value')


def lock_configuration(tally):
    db, other = (common.connect(':memory:', common.extension_path()) for _ in range(2))
    tally.check(value(db, "SELECT warp_config('threads', 3)") == 3, 'settings change')
    tally.check(value(db, "SELECT warp_config('lock_configuration', 0)") == 0, '0 is no change')
    tally.check(value(db, "SELECT warp_config('lock_configuration', 1)") == 1, 'it becomes 1')
    for name, given in (('threads', 1), ('device', "'cpu'"), ('cpu_memory_limit', 1), ('gpu_memory_limit', "'1GB'"),
                        ('progress', 1), ('training_seconds', 5), ('external_access', 0), ('lock_configuration', 0)):
        tally.check(refused(other, f"SELECT warp_config('{name}', {given})", 'lock_configuration'), f'{name} is locked')
    tally.check(value(other, "SELECT warp_config('threads')") == 3, 'settings are read')
    tally.check(value(other, "SELECT warp_config('lock_configuration', 1)") == 1, '1 again is no change')
    tally.check(value(other, "SELECT warp_config('external_access', 1)") == 1, 'what holds is no change')


def both(tally):
    """As a program's every connection would say it."""
    for _ in range(3):
        db = common.connect(':memory:', common.extension_path())
        tally.check(db.execute("SELECT warp_config('external_access', 0), warp_config('lock_configuration', 1)").fetchone()
                    == (0, 1), 'both, from each connection')
        tally.check(refused(db, "SELECT * FROM warp_vectors_file('/tmp/x.fvecs')", 'external_access'), 'no file')


def main():
    tally = common.Tally()
    for body in (external_access, lock_configuration, both):
        tally.check(apart(body), body.__name__)
    tally.finish()


if __name__ == '__main__':
    main()
