"""What the crash tests share: connections, vectors, a tally."""
import os
import sqlite3
import struct
import sys


def extension_path():
    return os.path.splitext(os.path.abspath(sys.argv[1]))[0]


def connect(path, extension, timeout=30.0):
    db = sqlite3.connect(path, isolation_level=None, timeout=timeout)
    db.enable_load_extension(True)
    db.load_extension(extension)
    return db


def vector(*values):
    return struct.pack('<%df' % len(values), *values)


class Tally:
    """Counts checks; a failed one is printed and the test goes on."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, holds, what):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print('FAILED: ' + what, flush=True)
        return holds

    def finish(self):
        print(f'{self.passed} passed, {self.failed} failed')
        sys.exit(1 if self.failed else 0)


def integrity_fault(db, table='t'):
    """None, or what is wrong with the file or the table."""
    rows = [row[0] for row in db.execute('PRAGMA integrity_check')]
    if rows != ['ok']:
        return '; '.join(rows)
    try:
        db.execute(f"INSERT INTO {table}({table}) VALUES ('integrity-check')")
    except sqlite3.Error as error:
        return str(error)
    return None


def rewrite(db, command, rows, trained):
    """Has table t do 'optimize' or 'train'. `rows` are dictionaries; `trained` columns have 2 lists."""
    few = any(sum(row[column] is not None for row in rows) < 2 for column in trained)
    try:
        db.execute(f"INSERT INTO t(t) VALUES ('{command}')")
    except sqlite3.OperationalError as error:
        if not (few and command == 'train' and 'needs at least as many rows' in str(error)):
            raise


def run_oracle(oracle_of, steps, checks):
    """A script's main: `oracle_of(db, seed, tally)` takes steps, with checks after each.

    The script's arguments are the extension's path and, if given, the seed and the number of steps.
    """
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else steps
    tally = Tally()
    oracle = oracle_of(connect(':memory:', extension_path()), seed, tally)
    for _ in range(steps):
        oracle.step()
        for _ in range(checks):
            oracle.check()
    tally.finish()
