#!/usr/bin/env python3
"""Puts Warplite into a copy of ann-benchmarks or an installed VectorDBBench, and does no harm the second time.

bench/harness/install.py ~/ann-benchmarks
bench/harness/install.py venv/lib/python3.11/site-packages/vectordb_bench
"""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What VectorDBBench has to know, in backend/clients/__init__.py: a line there, and what comes before it.
CASE = """        if self == DB.Warplite:
            from .warplite.{module} import {name}

            return {name}

"""
LINES = (
    ('    Test = "test"\n', '    Warplite = "Warplite"\n'),
    ("        if self == DB.Test:\n            from .test.test ", CASE.format(module="warplite", name="Warplite")),
    (
        "        if self == DB.Test:\n            from .test.config ",
        CASE.format(module="config", name="WarpliteConfig"),
    ),
    ("        # DB.Pinecone, DB.Redis\n", CASE.format(module="config", name="WarpliteIndexConfig")),
)


def copy(source, target):
    shutil.copytree(HERE / source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (target / "__init__.py").touch()


def insert(path, after, lines):
    text = path.read_text()
    if lines not in text:
        if text.count(after) != 1:
            sys.exit(f"{path}: {after.strip()!r} was expected once, and is there {text.count(after)} times")
        path.write_text(text.replace(after, lines + after))


def main():
    target = Path(sys.argv[1])
    if (target / "ann_benchmarks").is_dir():
        copy("ann_benchmarks", target / "ann_benchmarks" / "algorithms" / "warplite")
        return
    clients = target / "backend" / "clients"
    if not clients.is_dir():
        sys.exit(f"{target}: neither ann-benchmarks nor the package vectordb_bench")
    copy("vectordb_bench", clients / "warplite")
    for after, lines in LINES:
        insert(clients / "__init__.py", after, lines)
    insert(
        target / "cli" / "vectordbbench.py",
        "from ..backend.clients.test.cli import Test\n",
        "from ..backend.clients.warplite.cli import Warplite\n",
    )
    insert(target / "cli" / "vectordbbench.py", "cli.add_command(Test)\n", "cli.add_command(Warplite)\n")


main()
