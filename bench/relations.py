#!/usr/bin/env python3
"""Match counts over relations through SQL: UCI Adult, each row as often as --times says.

    bench/relations.py --build build/release --adult adult.csv [--times 20] [--device auto]

1,024 queries are made of rows of the table: numbers within 50 of 1,024 intervals of equal width of the row's,
texts equal to it, all 14 attributes. Prints one JSON line a case: by scanning columns, and by the codes of
columns with index=match; the first batch, a later one, and single queries. k = 100.
"""

import argparse
import csv
import json
import random
import sqlite3
import time
from pathlib import Path

from record import report, timed

QUERIES = 1024
NUMBERS = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        del row["income"]
        for name in NUMBERS:
            row[name] = int(row[name])
    return rows


def query_of(row, widths):
    return json.dumps({name: [value - widths[name], value + widths[name]]
                       if name in widths else value for name, value in row.items()})


def measure(db, table, queries, device):
    options = json.dumps({"device": device} if device else {})
    batch = (f"SELECT count(*), sum(matches) FROM warp_match_join('{table}', "
             "'SELECT id, query FROM q', 100, ?)")
    one = f"SELECT rowid, matches FROM warp_match_count('{table}', ?, 100, ?)"
    begin = time.perf_counter()
    total = db.execute(batch, (options,)).fetchone()
    first = time.perf_counter() - begin
    time.sleep(2)  # a device is filled
    numbers = iter(range(10_000))
    report(table, device=device or "auto", queries=len(queries), first_batch_seconds=first,
           batch_ms=timed(lambda: db.execute(batch, (options,)).fetchone(), 7),
           one_query_ms=timed(lambda: db.execute(
               one, (queries[next(numbers) % len(queries)], options)).fetchall(), 50),
           rows=total[0], matches=total[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--adult", required=True)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--device", default="")
    options = parser.parse_args()
    rows = read(options.adult)
    names = list(rows[0])
    widths = {name: 50 * (max(row[name] for row in rows) - min(row[name] for row in rows)) / 1024
              for name in NUMBERS}
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(str(Path(options.build) / "warplite"))
    values = [tuple(row.values()) for row in rows]
    for table, index in (("scanned", ""), ("coded", " index=match")):
        columns = ", ".join(f"{name} {'INTEGER' if name in NUMBERS else 'TEXT'}{index}"
                            for name in names)
        db.execute(f"CREATE VIRTUAL TABLE {table} USING warp({columns})")
        begin = time.perf_counter()
        db.execute("BEGIN")
        for _ in range(options.times):
            db.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(names))})", values)
        db.execute("COMMIT")
        report("insert", table=table, rows=options.times * len(rows),
               seconds=time.perf_counter() - begin)
    rng = random.Random(1)
    queries = [query_of(row, widths) for row in rng.sample(rows, QUERIES)]
    db.execute("CREATE TABLE q(id INTEGER PRIMARY KEY, query TEXT)")
    db.executemany("INSERT INTO q(query) VALUES (?)", [(query,) for query in queries])
    begin = time.perf_counter()
    db.execute("SELECT count(*) FROM warp_match_join('coded', 'SELECT id, query FROM q', 0)")
    report("reading the queries", ms=(time.perf_counter() - begin) * 1e3)
    for device in [options.device] if options.device else ["cpu", ""]:
        measure(db, "coded", queries, device)
    measure(db, "scanned", queries[:256], "cpu")
    report("devices", rows=[list(row) for row in db.execute("SELECT * FROM warp_devices()")])


if __name__ == "__main__":
    main()
