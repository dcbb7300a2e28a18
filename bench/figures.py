"""What is measured: each figure beside its peer and its floor, in rounds that alternate.

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
        self.program("query", path, "--load", self.extension, *setup, "--warm", 0, "--runs", 1,
                     "SELECT 1")

    def database(self, name, *statements):
        """A database made by `statements`, once."""
        path = self.work / name
        if not path.exists():
            part = self.fresh(name + ".part")
            self.execute(part, *statements)
            part.rename(path)
        return path

    def table(self, dim):
        """Our file with the base vectors in t(e)."""
        return self.database(
            f"warp_{self.rows}x{dim}.db",
            f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{dim}])",
            f"INSERT INTO t(rowid, e) SELECT rowid, vector FROM warp_vectors_file('{self.base(dim)}')")

    def peer_table(self, dim):
        """The same for sqlite-vec."""
        path = self.work / f"vec_{self.rows}x{dim}.db"
        if not path.exists():
            part = self.fresh(path.name + ".part")
            self.insert(part, self.peers.sqlite_vec, dim, f"CREATE VIRTUAL TABLE t USING vec0(e float[{dim}])")
            part.rename(path)
        return path

    def insert(self, path, extension, dim, *setup, rows=None, sql="INSERT INTO t(rowid, e) VALUES (?1, ?2)", **options):
        load = ["--load", extension] if extension else []
        steps = [part for statement in setup for part in ("--setup", statement)]
        limits = ["--rows", rows] if rows else []
        more = [part for name, value in options.items() for part in ("--" + name, value)]
        return self.program("insert", path, "--vectors", self.base(dim), *load, *steps, "--insert",
                            sql, *limits, *more)

    def query(self, path, *statements, extension=None, dim=None, **options):
        queries = ["--queries", self.queries(dim)] if dim else []
        more = [part for name, value in options.items() for part in ("--" + name, value)]
        return self.program("query", path, "--load", extension or self.extension, *queries, *more,
                            *statements)

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


def single_query(lab):
    """One query through SQL against the floor and sqlite-vec."""
    for dim in (384, 128):
        table, size = lab.table(dim), lab.rows * dim * 4
        ours = lambda: lab.query(table, SEARCH, dim=dim, floor=size, threads=lab.threads, runs=50)
        theirs = lambda: None
        if lab.peers.sqlite_vec:
            peer = lab.peer_table(dim)
            theirs = lambda: lab.query(peer, SEARCH, extension=lab.peers.sqlite_vec, dim=dim, runs=10)
        mine, others = lab.repeat(ours, theirs)
        times, floors = [ms(a) for a in mine], [a["floor_ms"] for a in mine]
        record = {"figure": f"one query, {dim} d", "data": f"{lab.rows} x {dim} float32", "unit": "ms",
                  "value": median(times), "floor": median(floors), "floor_name": "streaming read",
                  "of_floor": ratios(floors, times), "over_floor": ratios(times, floors),
                  "target": "<= 1.3 x floor, >= 15 x sqlite-vec"}
        record["met"] = record["over_floor"] <= 1.3
        if lab.peers.sqlite_vec:
            record |= {"peer": "sqlite-vec 0.1.9", "peer_value": median(ms(a) for a in others),
                       "ratio": ratios([ms(a) for a in others], times)}
            record["met"] = record["met"] and record["ratio"] >= 15
        yield record


def knn_join(lab):
    """A batch of queries against the FMA peak and Faiss."""
    for dim, target in ((384, 1.5), (128, 2.0)):
        table = lab.table(dim)
        batch = lab.queries(dim, BATCH)
        lab.execute(table, "CREATE TABLE IF NOT EXISTS q(id INTEGER PRIMARY KEY, v BLOB)",
                    f"INSERT OR REPLACE INTO q SELECT rowid, vector FROM warp_vectors_file('{batch}')")
        sql = ("SELECT count(*), sum(distance) FROM "
               f"warp_knn_join('t', 'e', 'SELECT id, v FROM q', {K})")
        ours = lambda: lab.query(table, sql, warm=1, runs=3)
        peak = lambda: lab.program("floor", lab.threads)["gflops"] * 1e9
        theirs = lambda: None
        if lab.peers.faiss:
            theirs = lambda: lab.peers.faiss_batch(lab.base(dim), batch, K, 3)
        mine, peaks, others = lab.repeat(ours, peak, theirs)
        times = [ms(a) for a in mine]
        floors = [2.0 * lab.rows * dim * BATCH / peak * 1e3 for peak in peaks]
        record = {"figure": f"batch of {BATCH:,} queries, {dim} d", "data": f"{lab.rows} x {dim} float32",
                  "unit": "ms", "value": median(times), "floor": median(floors), "floor_name": "FMA peak",
                  "of_floor": ratios(floors, times), "gflops_peak": median(peaks) / 1e9,
                  "target": f">= 60 % of FMA peak, >= {target:g} x Faiss"}
        record["met"] = record["of_floor"] >= 0.6
        if lab.peers.faiss:
            best = [min(a["ms"].values()) for a in others]
            record |= {"peer": f"Faiss {others[0]['version']} IndexFlatL2", "peer_value": median(best),
                       "ratio": ratios(best, times), "peer_by_threads": others[-1]["ms"],
                       "sums_of_distances": [mine[0]["statements"][0]["sum"] / 3, others[0]["sum"]]}
            record["met"] = record["met"] and record["ratio"] >= target
        yield record


def large_k(lab):
    """k = 4,096 beside k = 10."""
    table = lab.table(384)
    many = SEARCH.replace(f"k = {K}", "k = 4096")
    [answers] = lab.repeat(lambda: lab.query(table, SEARCH, many, dim=384, runs=30))
    yield compared("k = 4,096, 384 d", lab, 384, answers, "k = 10", 1.5)


def compared(figure, lab, dim, answers, other, limit):
    """A record of statement 1 against statement 0 of the same runs."""
    base, value = [ms(a, 0) for a in answers], [ms(a, 1) for a in answers]
    times = ratios(value, base)
    return {"figure": figure, "data": f"{lab.rows} x {dim} float32", "unit": "ms", "value": median(value),
            "peer": other, "peer_value": median(base), "ratio": 1 / times,
            "target": f"<= {limit:g} x {other}", "met": times <= limit}


def filtered(lab):
    """A filter that passes 1 % of the rows beside none."""
    for dim in (384, 128):
        table = lab.database(
            f"filter_{lab.rows}x{dim}.db",
            f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{dim}], bucket INTEGER)",
            "INSERT INTO t(rowid, e, bucket) SELECT rowid, vector, (rowid * 2654435761 >> 7) % 100 "
            f"FROM warp_vectors_file('{lab.base(dim)}')")
        narrow = SEARCH + " AND bucket = 7"
        [answers] = lab.repeat(lambda: lab.query(table, SEARCH, narrow, dim=dim, runs=30))
        yield compared(f"filter that passes 1 %, {dim} d", lab, dim, answers, "no filter", 1)


def element_types(lab):
    """Columns of fewer bytes beside float32, and beside a streaming read of their bytes."""
    dim = 384
    source = f"FROM warp_vectors_file('{lab.base(dim)}')"
    queries = f"FROM warp_vectors_file('{lab.queries(dim)}')"
    half = f"(SELECT '[' || substr(replace(hex(zeroblob({dim})), '00', ',0.5'), 2) || ']')"
    centred = f"vec_sub(vector, {half})"
    forms = {"f": ("FLOAT", 32, "vector"), "h": ("FLOAT16", 16, "vector"),
             "i": ("INT8", 8, f"vec_quantize_int8({centred}, 'unit')"),
             "b": ("BIT", 1, f"vec_quantize_binary({centred})")}
    steps = []
    for name, (kind, _, value) in forms.items():
        steps += [f"CREATE VIRTUAL TABLE {name} USING warp(e {kind}[{dim}])",
                  f"INSERT INTO {name}(rowid, e) SELECT rowid, {value} {source}"]
    values = ", ".join(f"{value} AS {name}" for name, (_, _, value) in forms.items())
    steps.append(f"CREATE TABLE q AS SELECT rowid AS id, {values} {queries}")
    table = lab.database(f"types_{lab.rows}x{dim}.db", *steps)
    statements = [f"SELECT rowid, distance FROM {name} WHERE e MATCH (SELECT {name} FROM q WHERE "
                  f"rowid = 1 + abs(random() % 100)) AND k = {K}" for name in forms]
    sizes = [lab.rows * dim * bits // 8 for _, bits, _ in forms.values()]
    floor = lambda: lab.program("floor", lab.threads, *sizes)["read_ms"]
    answers, floors = lab.repeat(lambda: lab.query(table, *statements, runs=30), floor)
    full = [ms(a, 0) for a in answers]
    for i, (kind, bits, _) in enumerate(forms.values()):
        times = [ms(a, i) for a in answers]
        own = [f[i] for f in floors]
        yield {"figure": f"one query, {kind.lower()}, {dim} d", "data": f"{lab.rows} x {dim} {kind}",
               "unit": "ms", "value": median(times), "floor": median(own), "floor_name": "streaming read",
               "of_floor": ratios(own, times), "peer": "float32", "peer_value": median(full),
               "ratio": ratios(full, times), "target": f"float32 has {32 // bits} x the bytes"}


def inserts(lab):
    """Prepared statements in one transaction, against sqlite-vec."""
    for dim, target in ((384, 3), (128, 4)):
        ours = lambda: lab.insert(lab.fresh("insert.db"), lab.extension, dim,
                                  f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{dim}])")
        theirs = lambda: None
        if lab.peers.sqlite_vec:
            theirs = lambda: lab.insert(lab.fresh("insert_vec.db"), lab.peers.sqlite_vec, dim,
                                        f"CREATE VIRTUAL TABLE t USING vec0(e float[{dim}])")
        mine, others = lab.repeat(ours, theirs)
        rates = [a["rows_per_second"] for a in mine]
        record = {"figure": f"inserts in one transaction, {dim} d", "data": f"{lab.rows} x {dim} float32",
                  "unit": "rows/s", "value": median(rates), "target": f">= {target} x sqlite-vec"}
        if lab.peers.sqlite_vec:
            peer = [a["rows_per_second"] for a in others]
            record |= {"peer": "sqlite-vec 0.1.9", "peer_value": median(peer), "ratio": ratios(rates, peer)}
            record["met"] = record["ratio"] >= target
        yield record


def bulk_load(lab):
    """INSERT … SELECT from a vectors file, beside the same bytes as plain BLOBs."""
    dim, rows = 128, lab.rows * 4
    path = lab.vectors(rows, dim, 1)
    load = f"INSERT INTO t(rowid, e) SELECT rowid, vector FROM warp_vectors_file('{path}')"
    for mode, target in (("delete", None), ("wal", 0.8)):
        journal = f"PRAGMA journal_mode = {mode}"

        def ours():
            file = lab.fresh("bulk.db")
            lab.execute(file, journal, f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{dim}])")
            return rows / ms(lab.query(file, load, warm=0, runs=1)) * 1e3

        def raw(piece):
            answer = lab.program("insert", lab.fresh("raw.db"), "--vectors", path, "--setup", journal,
                                 "--setup", "CREATE TABLE t(id INTEGER PRIMARY KEY, data BLOB)",
                                 "--insert", "INSERT INTO t VALUES (?1, ?2)", "--piece", piece)
            return rows / answer["total_ms"] * 1e3

        mine, large, small = lab.repeat(ours, lambda: raw(4 << 20), lambda: raw(4 * dim))
        record = {"figure": f"INSERT … SELECT from a vectors file, {mode} journal",
                  "data": f"{rows} x {dim} float32", "unit": "rows/s", "value": median(mine),
                  "peer": "raw BLOBs of 4 MB", "peer_value": median(large), "ratio": ratios(mine, large),
                  "raw_blobs_of_512_bytes": median(small), "ratio_to_512_bytes": ratios(mine, small),
                  "target": ">= 0.8 x raw BLOBs" if target else ">= 1,000,000 rows/s"}
        record["met"] = record["ratio"] >= target if target else record["value"] >= 1e6
        yield record


def one_row(lab):
    """A transaction of one row, beside the same row into an ordinary table with an index."""
    dim, count = 384, 200
    source = f"FROM warp_vectors_file('{lab.base(dim)}')"
    for mode in ("delete", "wal"):
        table = lab.fresh("one_row.db")
        plain = lab.fresh("one_row_plain.db")
        lab.execute(table, f"PRAGMA journal_mode = {mode}",
                    f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{dim}], tag INTEGER)",
                    f"INSERT INTO t(rowid, e, tag) SELECT rowid, vector, rowid % 1000 {source}")
        lab.execute(plain, f"PRAGMA journal_mode = {mode}",
                    "CREATE TABLE t(id INTEGER PRIMARY KEY, e BLOB, tag INTEGER)",
                    "CREATE INDEX t_tag ON t(tag)",
                    f"INSERT INTO t SELECT rowid, vector, rowid % 1000 {source}")
        first = [10 * lab.rows]

        def insert(path, extension, key):
            return lab.insert(path, extension, dim, rows=count, transaction=1, first=first[0],
                              sql=f"INSERT INTO t({key}, e, tag) VALUES (?1, ?2, ?1 % 1000)")

        def ours():
            first[0] += count
            return insert(table, lab.extension, "rowid")["transaction_ms"]

        mine, others = lab.repeat(ours, lambda: insert(plain, None, "id")["transaction_ms"])
        times = ratios(mine, others)
        yield {"figure": f"one-row transaction, {mode} journal", "data": f"{lab.rows} x {dim} float32",
               "unit": "ms", "value": median(mine), "peer": "ordinary table with an index",
               "peer_value": median(others), "ratio": 1 / times, "target": "<= 2 x the ordinary table",
               "met": times <= 2}


def start_and_memory(lab):
    """The first query of a new process; what a loaded table occupies; the memory limit."""
    dim = 384
    table, vectors = lab.table(dim), lab.rows * dim * 4
    data = f"{lab.rows} x {dim} float32"
    [answers] = lab.repeat(lambda: lab.query(table, SEARCH, dim=dim, warm=0, runs=1))
    first = median(a["first_answer_ms"] for a in answers)
    yield {"figure": "open and first query in a new process", "data": data, "unit": "ms", "value": first,
           "target": "<= 200 ms", "met": first <= 200}

    free = lab.query(table, SEARCH, dim=dim, warm=2, runs=20)
    grown = (free["resident_after"] - free["resident_before"]) / vectors
    yield {"figure": "memory of a loaded table", "data": data, "unit": "x its vectors", "value": grown,
           "target": "<= 1.15 x its vectors", "met": grown <= 1.15}

    limit = vectors // 4
    bound = lab.query(table, SEARCH, dim=dim, warm=2, runs=20,
                      setup=f"SELECT warp_config('cpu_memory_limit', {limit})")
    peak = (bound["resident_peak"] - bound["resident_before"]) / limit
    same = bound["statements"][0]["sum"] == free["statements"][0]["sum"]
    slack = 1 + (8 << 20) / limit  # SQLite's page cache and two segments on their way through
    yield {"figure": "peak memory under cpu_memory_limit", "data": data, "unit": "x the limit",
           "value": peak, "peer": "ms without a limit", "peer_value": ms(free), "limited_ms": ms(bound),
           "ratio": ms(free) / ms(bound), "answers_are_the_same": same,
           "target": "<= the limit + 8 MiB", "met": same and peak <= slack}


FIGURES = [single_query, knn_join, large_k, filtered, element_types, inserts, bulk_load, one_row,
           start_and_memory]
