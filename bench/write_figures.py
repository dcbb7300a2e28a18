"""Inserts, bulk loads and small transactions beside their peers."""

from lab import median, ms, ratios


def inserts(lab):
    """Prepared statements in one transaction, against sqlite-vec."""
    for dim, target in ((384, 3), (128, 4)):
        ours = lambda: lab.insert(
            lab.fresh("insert.db"),
            lab.extension,
            dim,
            f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{dim}])",
        )
        theirs = lambda: None
        if lab.peers.sqlite_vec:
            theirs = lambda: lab.insert(
                lab.fresh("insert_vec.db"),
                lab.peers.sqlite_vec,
                dim,
                f"CREATE VIRTUAL TABLE t USING vec0(e float[{dim}])",
            )
        mine, others = lab.repeat(ours, theirs)
        rates = [a["rows_per_second"] for a in mine]
        record = {
            "figure": f"inserts in one transaction, {dim} d",
            "data": f"{lab.rows} x {dim} float32",
            "unit": "rows/s",
            "value": median(rates),
            "target": f">= {target} x sqlite-vec",
        }
        if lab.peers.sqlite_vec:
            peer = [a["rows_per_second"] for a in others]
            record |= {
                "peer": "sqlite-vec 0.1.9",
                "peer_value": median(peer),
                "ratio": ratios(rates, peer),
            }
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
            answer = lab.program(
                "insert",
                lab.fresh("raw.db"),
                "--vectors",
                path,
                "--setup",
                journal,
                "--setup",
                "CREATE TABLE t(id INTEGER PRIMARY KEY, data BLOB)",
                "--insert",
                "INSERT INTO t VALUES (?1, ?2)",
                "--piece",
                piece,
            )
            return rows / answer["total_ms"] * 1e3

        mine, large, small = lab.repeat(ours, lambda: raw(4 << 20), lambda: raw(4 * dim))
        record = {
            "figure": f"INSERT … SELECT from a vectors file, {mode} journal",
            "data": f"{rows} x {dim} float32",
            "unit": "rows/s",
            "value": median(mine),
            "peer": "raw BLOBs of 4 MB",
            "peer_value": median(large),
            "ratio": ratios(mine, large),
            "raw_blobs_of_512_bytes": median(small),
            "ratio_to_512_bytes": ratios(mine, small),
            "target": ">= 0.8 x raw BLOBs" if target else ">= 1,000,000 rows/s",
        }
        record["met"] = record["ratio"] >= target if target else record["value"] >= 1e6
        yield record


def one_row(lab):
    """A transaction of one row, beside the same row into an ordinary table with an index."""
    dim, count = 384, 200
    source = f"FROM warp_vectors_file('{lab.base(dim)}')"
    for mode, synchronous in (("delete", "full"), ("wal", "full"), ("wal", "off")):
        table = lab.fresh("one_row.db")
        plain = lab.fresh("one_row_plain.db")
        lab.execute(
            table,
            f"PRAGMA journal_mode = {mode}",
            f"CREATE VIRTUAL TABLE t USING warp(e FLOAT[{dim}], tag INTEGER)",
            f"INSERT INTO t(rowid, e, tag) SELECT rowid, vector, rowid % 1000 {source}",
        )
        lab.execute(
            plain,
            f"PRAGMA journal_mode = {mode}",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, e BLOB, tag INTEGER)",
            "CREATE INDEX t_tag ON t(tag)",
            f"INSERT INTO t SELECT rowid, vector, rowid % 1000 {source}",
        )
        first = [10 * lab.rows]

        def insert(path, extension, key):
            return lab.insert(
                path,
                extension,
                dim,
                f"PRAGMA synchronous = {synchronous}",
                rows=count,
                transaction=1,
                first=first[0],
                sql=f"INSERT INTO t({key}, e, tag) " "VALUES (?1, ?2, ?1 % 1000)",
            )

        def ours():
            first[0] += count
            return insert(table, lab.extension, "rowid")["transaction_ms"]

        mine, others = lab.repeat(ours, lambda: insert(plain, None, "id")["transaction_ms"])
        times = ratios(mine, others)
        name = f"one-row transaction, {mode} journal" + (
            ", synchronous off" if synchronous == "off" else ""
        )
        yield {
            "figure": name,
            "data": f"{lab.rows} x {dim} float32",
            "unit": "ms",
            "value": median(mine),
            "peer": "ordinary table with an index",
            "peer_value": median(others),
            "ratio": 1 / times,
            "target": "<= 2 x the ordinary table",
            "met": times <= 2,
        }


FIGURES = [inserts, bulk_load, one_row]
