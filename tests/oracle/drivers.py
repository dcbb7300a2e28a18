"""SQLite as the oracle needs it: the standard library's module, or apsw for a newer SQLite.

WARPLITE_ORACLE_DEVICE: the device that searches are for, as warp_config('device', …) takes it.
"""
import faulthandler
import os
import random
import re
import shutil
import sqlite3
import sys


OLD_HOST = sqlite3.sqlite_version_info < (3, 38)
MATERIALIZED = 'MATERIALIZED' if sqlite3.sqlite_version_info >= (3, 35) else ''


class SqlError(Exception):
    pass


def refuses_old_host(message, sql):
    """Before 3.38, SQLite tells of no term whether it is IN: with k, that is refused and nothing else."""
    return (OLD_HOST and 'does not tell a search with k what IN or OR leave of the rows' in message and
            re.search(r'\bk = ', sql) is not None and
            re.search(r'\b(IN|OR)\b', sql, re.IGNORECASE) is not None)


def choose_device(connection):
    device = os.environ.get('WARPLITE_ORACLE_DEVICE')
    if device:
        connection.execute("SELECT warp_config('device', ?)", (device,))


class StandardConnection:
    """Python's own sqlite3 module."""

    name = 'sqlite3 ' + sqlite3.sqlite_version

    def __init__(self, path, extension=None):
        self.db = sqlite3.connect(path, isolation_level=None)
        if extension:
            self.db.enable_load_extension(True)
            self.db.load_extension(extension)
            choose_device(self)

    def execute(self, sql, parameters=()):
        try:
            return self.db.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise SqlError(str(error)) from None

    def iterate(self, sql, parameters=()):
        """Row by row: the statement is open meanwhile."""
        try:
            yield from self.db.execute(sql, parameters)
        except sqlite3.Error as error:
            raise SqlError(str(error)) from None

    def executemany(self, sql, rows):
        try:
            self.db.executemany(sql, rows)
        except sqlite3.Error as error:
            raise SqlError(str(error)) from None

    def create_function(self, name, arguments, function):
        self.db.create_function(name, arguments, function)

    def in_transaction(self):
        return self.db.in_transaction

    def close(self):
        self.db.close()


def apsw_connection():
    """The class for apsw, or None where it is not installed."""
    try:
        import apsw
    except ImportError:
        return None

    class ApswConnection:
        name = 'apsw, SQLite ' + apsw.sqlite_lib_version()

        def __init__(self, path, extension=None):
            self.db = apsw.Connection(path)
            if extension:
                self.db.enable_load_extension(True)
                self.db.load_extension(extension)
                choose_device(self)

        def execute(self, sql, parameters=()):
            try:
                return list(self.db.cursor().execute(sql, parameters))
            except apsw.Error as error:
                raise SqlError(str(error)) from None

        def iterate(self, sql, parameters=()):
            try:
                yield from self.db.cursor().execute(sql, parameters)
            except apsw.Error as error:
                raise SqlError(str(error)) from None

        def executemany(self, sql, rows):
            try:
                self.db.cursor().executemany(sql, rows)
            except apsw.Error as error:
                raise SqlError(str(error)) from None

        def create_function(self, name, arguments, function):
            self.db.create_scalar_function(name, function, arguments)

        def in_transaction(self):
            return not self.db.get_autocommit()

        def close(self):
            self.db.close(True)

    return ApswConnection


def available():
    """Every driver that can load an extension here."""
    drivers = [StandardConnection] if hasattr(sqlite3.Connection, 'load_extension') else []
    newer = apsw_connection()
    return drivers + ([newer] if newer else [])


def play(run, default_steps):
    """The command line EXTENSION [SEED [STEPS [TRACE]]], with every driver: run(driver, extension, seed, trace)
    has a directory, and its run(steps) gives how many answers were compared, and a complaint or None."""
    faulthandler.enable()
    extension = os.path.splitext(os.path.abspath(sys.argv[1]))[0]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else default_steps
    trace = open(sys.argv[4], 'w', encoding='utf-8') if len(sys.argv) > 4 else None
    passed = failed = 0
    for driver in available():
        print(f'seed {seed}, {steps} steps, {driver.name}', flush=True)
        game = run(driver, extension, seed, trace)
        answered, complaint = game.run(steps)
        shutil.rmtree(game.directory, ignore_errors=True)
        passed += answered
        if complaint:
            failed += 1
            print(complaint)
    if passed + failed == 0:
        print('this Python cannot load extensions')
        failed = 1
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


def play_rounds(play_round):
    """The command line EXTENSION [SEED [ROUNDS]], with every driver: play_round(driver, extension, seed) gives a
    complaint, which ends the rounds of that driver, or None."""
    extension = os.path.splitext(os.path.abspath(sys.argv[1]))[0]
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    passed = failed = 0
    for driver in available():
        print(f'seed {first}, {rounds} rounds, {driver.name}', flush=True)
        for seed in range(first, first + rounds):
            complaint = play_round(driver, extension, seed)
            if complaint:
                failed += 1
                print(f'seed {seed}: {complaint}')
                break
            passed += 1
    if passed + failed == 0:
        print('this Python cannot load extensions')
        failed = 1
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0
