"""Tests of the package: against the library that WARPLITE_EXTENSION names, or an installed wheel's.

Each test with the parameter `driver` runs with every SQLite module that is there and can load extensions.
"""

import importlib
from importlib.util import find_spec

import pytest

import warplite

collect_ignore = [] if find_spec("ray") else ["cluster"]


def drivers():
    found = []
    for name in ("sqlite3", "pysqlite3", "apsw"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(module.Connection, "enable_load_extension"):
            found.append(name)
    return found


@pytest.fixture(params=drivers())
def driver(request):
    return request.param


@pytest.fixture
def db(driver):
    connection = warplite.connect(":memory:", module=driver)
    yield connection
    connection.close()


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command line in a folder of its own, and returns what it says; without click the test is left out."""
    click_testing = pytest.importorskip("click.testing")
    from warplite.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        result = click_testing.CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exit_code == code, (result.output, result.exception)
        assert code == 0 or isinstance(result.exception, SystemExit), result.exception  # no traceback
        return result.output

    return run
