#!/usr/bin/env python3
"""Runs the package's tests against a library.

run.py LIBRARY               by this interpreter; tests of packages that are not installed are left out
run.py LIBRARY --everything  in a new virtual environment, with every package that the plug-ins are for
run.py LIBRARY --cluster     in a new virtual environment, with Ray: the tests of clusters

Exit code 77: skipped, and the last line says why.
"""

import os
import subprocess
import sys
import tempfile
import venv
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
EVERYTHING = (
    "numpy click pytest pyarrow pandas matplotlib apsw pysqlite3-binary sqlalchemy aiosqlite django flask gunicorn "
    "datasette sqlite-utils llm langchain-tests llama-index-core pytest-asyncio nbclient ipykernel greenlet "
    "sqlite-vec langchain-community langgraph-checkpoint-sqlite mcp-memory-service sqlite-utils-sqlite-vec selenium"
).split()


CLUSTER = "pytest httpx pandas".split()


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run_tests(python, library, *arguments):
    environment = {**os.environ, "WARPLITE_EXTENSION": str(Path(library).resolve())}
    environment["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", *arguments]
    named = [argument for argument in arguments if os.path.exists(argument)]
    return subprocess.run([*command, *([] if named else [PACKAGE / "tests"])], env=environment).returncode


def make_environment(folder, *packages):
    """Returns the interpreter of a virtual environment in which the packages are installed."""
    try:
        venv.create(folder, with_pip=True)
    except (subprocess.CalledProcessError, OSError):  # Debian's python3 without python3-venv
        if subprocess.run([sys.executable, "-m", "virtualenv", "-q", folder]).returncode:
            skip("no virtual environment can be made here (python3-venv and virtualenv are missing)")
    python = Path(folder) / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check"]
    if subprocess.run([*install, "--timeout", "20", "--retries", "1", "click"], capture_output=True).returncode:
        skip("the package index cannot be reached")
    subprocess.run([*install, *packages], check=True)
    return python


def main():
    library, *rest = sys.argv[1:]
    if rest == ["--everything"]:
        with tempfile.TemporaryDirectory() as folder:
            return run_tests(make_environment(folder, *EVERYTHING, PACKAGE), library)
    if rest == ["--cluster"]:
        with tempfile.TemporaryDirectory() as folder:
            python = make_environment(folder, *CLUSTER, f"{PACKAGE}[cluster,arrow]")
            return run_tests(python, library, PACKAGE / "tests" / "cluster")
    for module in ("numpy", "pytest", "click"):
        if find_spec(module) is None:
            skip(f"{sys.executable} has no {module}")
    return run_tests(sys.executable, library, *rest)


if __name__ == "__main__":
    sys.exit(main())
