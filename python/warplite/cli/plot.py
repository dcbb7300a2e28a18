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


def _draw(machine: dict[str, Any], measured: list[dict[str, Any]], picture: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for key, how, style in (("ms", "one at a time", "o-"), ("ms_in_batch", "in a batch", "s--")):
        curve = [(f["recall"], 1e3 / f[key], f["nprobe"]) for f in measured if f["what"] == "index"]
        exact = next(f for f in measured if f["what"] == "exact")
        line = axes.axhline(1e3 / exact[key], linestyle=style[1:], linewidth=1, label=f"exact, {how}")
        if curve:
            index = next(f["index"] for f in measured if f["what"] == "index")
            axes.plot(*zip(*((r, q) for r, q, _ in curve)), style, color=line.get_color(), label=f"{index}, {how}")
            for recall, rate, nprobe in curve:
                axes.annotate(str(nprobe or ""), (recall, rate), textcoords="offset points", xytext=(0, 6), fontsize=8)
    floor = next(f["ms"] for f in measured if f["what"] == "floor")
    axes.axhline(1e3 / floor, color="grey", linestyle=":", label="memory read once a query")
    axes.set_yscale("log")
    axes.set_xlabel(f"recall@{machine['k']} (at the points: nprobe)")
    axes.set_ylabel("queries a second")
    axes.set_title("{rows:,} x {dim}, {distance}; {cpu}; warplite {version}".format(**machine), fontsize=10)
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(picture, dpi=150)
