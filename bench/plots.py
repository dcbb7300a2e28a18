#!/usr/bin/env python3
"""Draws the pictures of docs/pictures/ from the JSON lines beside them; measures these anew first, if asked to.

    bench/plots.py [NAME…]                            draws NAME.svg from NAME.jsonl (all: recall dimensions selectivity file_size)
    bench/plots.py --measure --build build/release    measures all four here, then draws them
    bench/plots.py --measure recall --build build/release --base sift_base.bvecs --queries sift_query.bvecs

Needs matplotlib; measuring needs what bench/run.py needs. Peers (Faiss, hnswlib, usearch, sqlite-vec) are installed under --work.
"""

import argparse
import json
import sys
from pathlib import Path

import curves
import run
from lab import Lab
from matplotlib import rc_context
from matplotlib.figure import Figure
from peers import Peers

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
sys.path.append(str(ROOT / "python"))
from warplite.cli.plot import draw_recall  # noqa: E402

NAMES = ("recall", "dimensions", "selectivity", "file_size")


def machine(lab):
    where = run.machine()
    return {"what": "machine", "cpu": f"{where['processor']}, one thread", "rows": lab.rows}


def measure(name, lab, options):
    if name == "recall":
        queries = ["--queries", options.queries] if options.queries else []
        return curves.recall(lab, "--base", options.base, *queries)
    return [machine(lab), *getattr(curves, name)(lab)]


PEERS = {
    "Faiss IVF": ("#777777", "s"),
    "Faiss HNSW": ("#222222", "v"),
    "hnswlib": ("#222222", "^"),
    "usearch": ("#222222", "x"),
    "sqlite-vec": ("#222222", "*"),
}


def recall_style(index):
    """Ours in colours, peers in grey; one point where an index is exact."""
    for name, (colour, marker) in PEERS.items():
        if index.startswith(name):
            return {
                "linestyle": "--" if "PQ" in index else ":",
                "color": colour,
                "marker": marker,
                "markersize": 5,
                "linewidth": 1,
            }
    exact = index in ("Warplite flat", "Warplite list_of_clusters", "Warplite sss")
    return {"marker": "D" if exact else "o", "markersize": 6 if exact else 4, "linewidth": 2}


def draw_recall_picture(axes, machine, measured):
    draw_recall(axes, measured, recall_style)
    axes.set_xlim(0.7, 1.005)
    axes.set_xlabel(f"recall@{machine['k']}")
    axes.set_title("{data}: {rows:,} x {dim}, {distance}, one query at a time; {cpu}".format(**machine), fontsize=9)


def draw_curves(axes, measured):
    for name in dict.fromkeys(record["curve"] for record in measured if "curve" in record):
        points = [(record["x"], record["y"]) for record in measured if record.get("curve") == name]
        ours = name.startswith("Warplite")
        style = {"linestyle": "-" if ours else "--", "linewidth": 2 if ours else 1.2, "marker": "o", "markersize": 4}
        axes.plot(*zip(*points), label=name, **style)
    axes.set_xscale("log")
    axes.grid(True, which="both", alpha=0.3)


def draw_dimensions(axes, machine, measured):
    draw_curves(axes, measured)
    ticks = sorted({record["x"] for record in measured if "x" in record})
    axes.set_yscale("log")
    axes.set_xticks(ticks, labels=ticks)
    axes.minorticks_off()
    axes.set_xlabel("dimensions")
    axes.set_ylabel("ms, one exact query")
    axes.set_title("{rows:,} float32 vectors, k = 10; {cpu}".format(**machine), fontsize=9)


def draw_selectivity(axes, machine, measured):
    draw_curves(axes, measured)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}" if share >= 0.01 else f"{share:.1%}")
    axes.set_xlabel("rows that pass the filter")
    axes.set_ylabel("ms, one query")
    axes.set_title("{rows:,} x 128, k = 10; {cpu}".format(**machine), fontsize=9)


def draw_file_size(axes, machine, measured):
    draw_curves(axes, measured)
    axes.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
    axes.set_ylim(0)
    axes.set_xlabel("rows of 128 dimensions")
    axes.set_ylabel("bytes of the file, a row")
    axes.set_title("after VACUUM", fontsize=9)


DRAW = {
    "recall": draw_recall_picture,
    "dimensions": draw_dimensions,
    "selectivity": draw_selectivity,
    "file_size": draw_file_size,
}


def draw(name):
    lines = (PICTURES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    measured = [json.loads(line) for line in lines]
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    DRAW[name](axes, measured[0], measured)
    axes.legend(fontsize=7, ncols=1 + (name == "recall"))
    # The same lines give the same bytes: no date, and names that are not drawn by lot.
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build" / "bench", help="where data, databases and peers go"
    )
    parser.add_argument("--rows", type=int, default=100_000, help="of all pictures but recall")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--base", type=Path, default=ROOT / "examples" / "data" / "glove10k.fvecs", help="vectors of recall"
    )
    parser.add_argument("--queries", type=Path, help="of recall; without, some of the base")
    options = parser.parse_args()
    names = [name for name in options.names or NAMES if name in NAMES or parser.error(f"no picture {name}")]
    if options.measure:
        options.work.mkdir(parents=True, exist_ok=True)
        work = options.work.resolve()
        lab = Lab(options.build.resolve(), work, Peers(work), options.rows, options.rounds, 1)
        for name in names:
            records = measure(name, lab, options)
            PICTURES.mkdir(exist_ok=True)
            with open(PICTURES / f"{name}.jsonl", "w", encoding="utf-8") as out:
                out.writelines(json.dumps(record) + "\n" for record in records)
    for name in names:
        draw(name)


if __name__ == "__main__":
    main()
