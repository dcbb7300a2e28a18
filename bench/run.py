#!/usr/bin/env python3
"""Measures warplite beside its peers and its floors, on uniform random data of a fixed seed.

    bench/run.py                  every figure, 100,000 rows; JSON lines to build/bench/results.jsonl, then a table
    bench/run.py --only join      the figures whose function names contain "join"
    bench/run.py --rows 10000 --rounds 1    a quick look

Times are warm, through SQLite's C interface, medians of rounds in which we and the peer take turns.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import search_figures
import write_figures
from lab import Lab
from peers import Peers

ROOT = Path(__file__).resolve().parent.parent


def machine():
    name = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {"processor": name, "cores": os.cpu_count(), "system": platform.platform(terse=True)}


def number(value):
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def times(value):
    return "" if value is None else f"{value:.2f} x"


def table(records):
    """The records as an aligned table."""
    header = [
        "figure",
        "ours",
        "unit",
        "peer",
        "its value",
        "we are",
        "floor",
        "of it",
        "target",
        "met",
    ]
    rows = [header]
    for r in records:
        share = r.get("of_floor")
        rows.append(
            [
                r["figure"],
                number(r["value"]),
                r["unit"],
                r.get("peer", ""),
                number(r.get("peer_value")),
                times(r.get("ratio")),
                number(r.get("floor")),
                "" if share is None else f"{share:.0%}",
                r.get("target", ""),
                {True: "yes", False: "NO", None: ""}[r.get("met")],
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="part of a figure function's name")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the floors")
    parser.add_argument(
        "--build", type=Path, help="an existing build folder, instead of build/release"
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=ROOT / "build" / "bench",
        help="where data, databases and results go",
    )
    options = parser.parse_args()
    if options.build is None:
        options.build = ROOT / "build" / "release"
        for step in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release"]):
            subprocess.run(step, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    options.work.mkdir(parents=True, exist_ok=True)

    lab = Lab(
        options.build.resolve(),
        options.work.resolve(),
        Peers(options.work.resolve()),
        options.rows,
        options.rounds,
        options.threads,
    )
    where = machine()
    records = []
    with open(options.work / "results.jsonl", "w", encoding="utf-8") as out:
        for figure in search_figures.FIGURES + write_figures.FIGURES:
            if options.only not in figure.__name__:
                continue
            for record in figure(lab):
                record["machine"] = where
                line = json.dumps(record, ensure_ascii=False)
                print(line, flush=True)
                out.write(line + "\n")
                records.append(record)
    print("\n" + table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
