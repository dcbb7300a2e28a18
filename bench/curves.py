"""What bench/plots.py draws: curves of times and sizes. Each function of a Lab yields records of one picture.

A record has the curve's name, x and y. Times are the fastest of many runs, since other work on the machine only adds.
"""

from dataclasses import replace
from pathlib import Path

from lab import SEARCH

DIMENSIONS = (32, 64, 128, 256, 384, 768, 1024, 1536)
SHARES = (1000, 500, 200, 100, 50, 20, 10, 5, 2, 1)  # of a thousand rows, those that a filter passes
ROWS = (1000, 3000, 10_000, 30_000, 100_000)
DIM = 128


def fastest(lab, path, statements, extension=None, dim=DIM, runs=20, **options):
    """Milliseconds of each statement on one thread, and of reading options' `floor` bytes: the least of all rounds."""
    alone = {} if extension else {"setup": "SELECT warp_config('threads', 1)"}
    answers = [
        lab.query(path, *statements, extension=extension, dim=dim, runs=runs, threads=1, **alone, **options)
        for _ in range(lab.rounds)
    ]
    times = [min(answer["statements"][i]["min_ms"] for answer in answers) for i in range(len(statements))]
    return times, min(answer["floor_ms"] for answer in answers)


def dimensions(lab):
    """One exact query by the number of dimensions, beside a streaming read of the vectors and sqlite-vec."""
    for dim in DIMENSIONS:
        [ours], floor = fastest(lab, lab.table(dim), [SEARCH], dim=dim, floor=lab.rows * dim * 4, runs=50)
        yield {"curve": "Warplite", "x": dim, "y": ours}
        yield {"curve": "reading the vectors from memory", "x": dim, "y": floor}
        if lab.peers.sqlite_vec:
            [theirs], _ = fastest(lab, lab.peer_table(dim), [SEARCH], lab.peers.sqlite_vec, dim)
            yield {"curve": "sqlite-vec 0.1.9", "x": dim, "y": theirs}


def selectivity(lab):
    """One query by the share of the rows that pass a filter, exact and through an index, beside sqlite-vec."""
    bucket = "(rowid * 2654435761 >> 7) % 1000"
    filters = [f"{SEARCH} AND bucket < {share}" for share in SHARES]
    files = {}
    for name, index in (("Warplite, exact", "flat"), ("Warplite, ivfpq(bits=4)", "ivfpq(bits=4)")):
        files[name] = (
            lab.database(
                f"filter_{index[:3]}_{lab.rows}.db",
                f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{DIM}] index={index}, bucket INTEGER)",
                f"INSERT INTO t(rowid, e, bucket) SELECT rowid, vector, {bucket} FROM warp_vectors_file('{lab.base(DIM)}')",
                "INSERT INTO t(t) VALUES ('optimize')",
            ),
            None,
        )
    if lab.peers.sqlite_vec:
        path = lab.fresh("filter_peer.db")
        create = f"CREATE VIRTUAL TABLE t USING vec0(e float[{DIM}], bucket integer)"
        insert = f"INSERT INTO t(rowid, e, bucket) VALUES (?1, ?2, {bucket.replace('rowid', '?1')})"
        lab.insert(path, lab.peers.sqlite_vec, DIM, create, sql=insert)
        files["sqlite-vec 0.1.9"] = path, lab.peers.sqlite_vec
    for name, (path, extension) in files.items():
        times, _ = fastest(lab, path, filters, extension, runs=20 if extension else 100)
        for share, time in zip(SHARES, times):
            yield {"curve": name, "x": share / 1000, "y": time}


def file_size(lab):
    """Bytes of the file a row, by the number of rows, of each way to keep vectors."""
    trained = "index=ivfpq(lists=16, bits=4)"
    ways = {
        "Warplite, ivfpq(bits=4)": (f"e FLOAT[{DIM}] {trained}", "vector"),
        "Warplite": (f"e FLOAT[{DIM}]", "vector"),
        "Warplite, FLOAT16": (f"e FLOAT16[{DIM}]", "vector"),
        "Warplite, INT8": (f"e INT8[{DIM}]", "vec_quantize_int8(vector, 'unit')"),
        "Warplite, ivfpq(bits=4), store=codes": (f"e FLOAT[{DIM}] {trained}, store=codes", "vector"),
        "Warplite, BIT": (f"e BIT[{DIM}]", "vec_quantize_binary(vector)"),
    }
    for rows in ROWS:
        some = replace(lab, rows=rows)
        if lab.peers.sqlite_vec:
            yield {"curve": "sqlite-vec 0.1.9", "x": rows, "y": some.peer_table(DIM).stat().st_size / rows}
        yield {"curve": "the vectors alone, float32", "x": rows, "y": DIM * 4}
        for name, (columns, value) in ways.items():
            train = ["INSERT INTO t(t) VALUES ('train')"] if "ivfpq" in name else []
            path = some.fresh("size.db")
            some.execute(
                path,
                f"CREATE VIRTUAL TABLE t USING warp({columns})",
                f"INSERT INTO t(rowid, e) SELECT rowid, {value} FROM warp_vectors_file('{some.base(DIM)}')",
                "INSERT INTO t(t) VALUES ('optimize')",
                *train,
                "VACUUM",
            )
            yield {"curve": name, "x": rows, "y": path.stat().st_size / rows}


def recall(lab, *options):
    """Every index beside its peers: what bench/recall.py says, run by the Python that has them."""
    program = Path(__file__).resolve().parent / "recall.py"
    return lab.peers.measure_recall(program, lab.extension + ".so", *options)
