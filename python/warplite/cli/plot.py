"""warplite plot: the figures of warplite bench as a picture."""

from __future__ import annotations

import json
from typing import Any

import click

from . import main, needs


@main.command()
@click.argument("figures", type=click.Path(exists=True, dir_okay=False))
@click.argument("picture", type=click.Path())
def plot(figures: str, picture: str) -> None:
    """Draws FIGURES, of warplite bench --output, into PICTURE: .png or .svg."""
    if not picture.endswith((".png", ".svg")):
        raise click.UsageError(f"{picture}: .png and .svg can be drawn")
    with open(figures, encoding="utf-8") as lines:
        measured = [json.loads(line) for line in lines]
    machine = next((figure for figure in measured if figure.get("what") == "machine"), None)
    if machine is None:
        raise click.ClickException(f"{figures} is not of warplite bench --output")
    needs("matplotlib", "plot")
    _draw(machine, measured, picture)


def draw_recall(axes: Any, measured: list[dict[str, Any]], style: Any = lambda index: {}) -> None:
    """Draws recall against queries a second: a curve for each index and way of asking, a line for exact search.

    An index that has one setting is a point. `style` gives options of matplotlib for an index.
    """
    names = list(dict.fromkeys(figure["index"] for figure in measured if figure["what"] == "index"))
    for key, how, marker, dashes in (("ms", "one at a time", "o", "-"), ("ms_in_batch", "in a batch", "s", "--")):
        figures = [figure for figure in measured if key in figure]
        for exact in (figure for figure in figures if figure["what"] == "exact"):
            axes.axhline(1e3 / exact[key], color="C7", linestyle=dashes, linewidth=1, label=f"exact, {how}")
        for name in names:
            curve = [(f["recall"], 1e3 / f[key], f.get("nprobe")) for f in figures if f.get("index") == name]
            if not curve:
                continue
            label = name if style(name) else f"{name}, {how}"
            axes.plot(*list(zip(*curve))[:2], **{"marker": marker, "linestyle": dashes, "label": label, **style(name)})
            for recall, rate, nprobe in curve:
                axes.annotate(str(nprobe or ""), (recall, rate), textcoords="offset points", xytext=(0, 6), fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel("queries a second")
    axes.grid(True, which="both", alpha=0.3)


def _draw(machine: dict[str, Any], measured: list[dict[str, Any]], picture: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    draw_recall(axes, measured)
    floor = next(f["ms"] for f in measured if f["what"] == "floor")
    axes.axhline(1e3 / floor, color="grey", linestyle=":", label="memory read once a query")
    axes.set_xlabel(f"recall@{machine['k']} (at the points: nprobe)")
    axes.set_title("{rows:,} x {dim}, {distance}; {cpu}; warplite {version}".format(**machine), fontsize=10)
    axes.legend(fontsize=8)
    figure.savefig(picture, dpi=150)
