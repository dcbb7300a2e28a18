"""The command line: `warplite`."""

from __future__ import annotations

from typing import Any

import click

from .._loading import LoadingNotSupportedError, connect
from .._vectors import module_of


class _PlainErrors(click.Group):
    """Says what failed in a line on stderr, and exits with 1; a fault of the program keeps its traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:  # `| head` has read enough, and click ends without a word
            raise
        except (OSError, ValueError, LoadingNotSupportedError) as error:
            raise click.ClickException(str(error)) from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] in ("sqlite3", "pysqlite3", "apsw"):
                raise click.ClickException(str(error)) from error
            raise


@click.group(cls=_PlainErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="warplite")
def main() -> None:
    """Similarity search in SQLite files.

    Exit codes: 0, done; 1, it failed, and a line on stderr says why; 2, the command was written wrongly.
    """


def open_database(path: str, *, must_exist: bool = True) -> Any:
    """Opens a file with the extension; refuses to make a new one where `must_exist`."""
    import os

    if must_exist and not os.path.exists(path):
        raise click.ClickException(f"no such file: {path}")
    return connect(path)


def warp_tables(db: Any, database: str, table: str | None = None) -> list[str]:
    """Returns a file's warp and vec0 tables, or the one of that name. Raises ClickException where there is none."""
    made = db.execute("SELECT name, sql FROM main.sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    names = [name for name, sql in made if module_of(sql) in ("warp", "vec0")]
    if table is not None:
        names = [name for name in names if name.lower() == table.lower()]
    if not names:
        raise click.ClickException(
            f"{database} has no warp tables" if table is None else f"no such warp table: {table}"
        )
    return names


def needs(module: str, extra: str) -> Any:
    """Imports a package that an extra of warplite brings, or says which."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise click.ClickException(f"this needs {module}: pip install 'warplite[{extra}]'") from error


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Prints columns, aligned: those of numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    numeric = [all(cell.replace(".", "", 1).strip("-%").isdigit() or not cell for cell in c) for c in zip(*rows)]
    for row in [head, *rows]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric or [False] * len(head))
        ]
        click.echo("  ".join(cells).rstrip())


from . import about, bench, exporting, importing, maintaining, plot, searching  # noqa: E402, F401  (they add their commands)
