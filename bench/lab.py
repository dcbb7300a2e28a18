"""Where figures are measured: programs, data, databases, and rounds that take turns.

A figure is a function of a Lab that yields records (dictionaries): value and unit, peer_value,
ratio, floor, target and whether it was met. Times are medians of rounds.
"""

import json
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from peers import Peers

K = 10
SEARCH = f"SELECT rowid, distance FROM t WHERE e MATCH ?1 AND k = {K}"
BATCH = 1000  # queries of a join


@dataclass
class Lab:
    """Programs, data and databases. Files are made once and kept in `work`."""

    build: Path
    work: Path
    peers: Peers
    rows: int
    rounds: int
    threads: int

    @property
    def extension(self):
        return str(self.build / "warplite")

    def program(self, name, *arguments):
        """Runs bench_NAME; its JSON line."""
        command = [str(self.build / "bench" / f"bench_{name}"), *map(str, arguments)]
        outcome = subprocess.run(command, capture_output=True, text=True)
        if outcome.returncode != 0:
            raise RuntimeError(f"bench_{name}: {outcome.stderr.strip()}")
        return json.loads(outcome.stdout)

    def vectors(self, rows, dim, seed):
        path = self.work / f"uniform_{rows}x{dim}_{seed}.fvecs"
        if not path.exists():
            command = [self.build / "bench" / "bench_uniform", path, rows, dim, seed]
            subprocess.run([str(part) for part in command], check=True)
        return path

    def base(self, dim):
        return self.vectors(self.rows, dim, 1)

    def queries(self, dim, count=100):
        return self.vectors(count, dim, 2)

    def fresh(self, name):
        """The path of a database that does not exist."""
        path = self.work / name
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(str(path) + suffix).unlink(missing_ok=True)
        return path

    def execute(self, path, *statements):
        setup = [part for sql in statements for part in ("--setup", sql)]
        self.program(
            "query", path, "--load", self.extension, *setup, "--warm", 0, "--runs", 1, "SELECT 1"
        )

    def database(self, name, *statements):
        """A database made by `statements`, once for each build of the extension."""
        path = self.work / name
        built = Path(self.extension + ".so").stat().st_mtime
        if not path.exists() or path.stat().st_mtime < built:
            part = self.fresh(name + ".part")
            self.execute(part, *statements)
            part.rename(path)
        return path

    def table(self, dim):
        """Our file with the base vectors in t(e)."""
        return self.database(
            f"warp_{self.rows}x{dim}.db",
            f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{dim}])",
            f"INSERT INTO t(rowid, e) SELECT rowid, vector FROM warp_vectors_file('{self.base(dim)}')",
        )

    def peer_table(self, dim):
        """The same for sqlite-vec."""
        path = self.work / f"vec_{self.rows}x{dim}.db"
        if not path.exists():
            part = self.fresh(path.name + ".part")
            self.insert(
                part,
                self.peers.sqlite_vec,
                dim,
                f"CREATE VIRTUAL TABLE t USING vec0(e float[{dim}])",
            )
            part.rename(path)
        return path

    def insert(
        self,
        path,
        extension,
        dim,
        *setup,
        rows=None,
        sql="INSERT INTO t(rowid, e) VALUES (?1, ?2)",
        **options,
    ):
        load = ["--load", extension] if extension else []
        steps = [part for statement in setup for part in ("--setup", statement)]
        limits = ["--rows", rows] if rows else []
        more = [part for name, value in options.items() for part in ("--" + name, value)]
        return self.program(
            "insert",
            path,
            "--vectors",
            self.base(dim),
            *load,
            *steps,
            "--insert",
            sql,
            *limits,
            *more,
        )

    def query(self, path, *statements, extension=None, dim=None, **options):
        queries = ["--queries", self.queries(dim)] if dim else []
        more = [part for name, value in options.items() for part in ("--" + name, value)]
        return self.program(
            "query", path, "--load", extension or self.extension, *queries, *more, *statements
        )

    def repeat(self, *actions):
        """Runs the actions in turn, `rounds` times; their results, one list for each."""
        results = [[] for _ in actions]
        for _ in range(self.rounds):
            for action, result in zip(actions, results):
                result.append(action())
        return results


def ms(answer, statement=0):
    return answer["statements"][statement]["median_ms"]


def median(values):
    return statistics.median(values)


def ratios(numerators, denominators):
    """The median of the rounds' ratios: what both suffered from others cancels."""
    return median(a / b for a, b in zip(numerators, denominators))


def compared(figure, lab, dim, answers, other, limit):
    """A record of statement 1 against statement 0 of the same runs."""
    base, value = [ms(a, 0) for a in answers], [ms(a, 1) for a in answers]
    times = ratios(value, base)
    return {
        "figure": figure,
        "data": f"{lab.rows} x {dim} float32",
        "unit": "ms",
        "value": median(value),
        "peer": other,
        "peer_value": median(base),
        "ratio": 1 / times,
        "target": f"<= {limit:g} x {other}",
        "met": times <= limit,
    }
