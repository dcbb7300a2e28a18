"""warplite check, warplite optimize: the commands of tables."""

from __future__ import annotations

import time

import click

from .._rows import writing
from .._vectors import quoted
from . import main, open_database, warp_tables


@main.command()
@click.argument("database")
@click.argument("table", required=False)
def check(database: str, table: str | None) -> None:
    """Checks TABLE, or every warp and vec0 table of DATABASE: checksums, and that indexes agree with rows.

    Exits with 1 where something is wrong, after all have been checked.
    """
    db = open_database(database)
    wrong = 0
    for name in warp_tables(db, database, table):
        try:
            with writing(db):
                db.execute(f"INSERT INTO {quoted(name)}({quoted(name)}) VALUES ('integrity-check')")
        except Exception as error:  # what SQLite's modules raise has no class in common
            click.echo(error, err=True)
            wrong += 1
        else:
            click.echo(f"{name}: ok")
    if wrong:
        raise click.ClickException(f"{wrong} of the tables failed the check")


@main.command()
@click.argument("database")
@click.argument("table", required=False)
def optimize(database: str, table: str | None) -> None:
    """Merges small and sparse segments of TABLE, or of every warp and vec0 table of DATABASE; indexes learn anew.

    Each table is a transaction.
    """
    db = open_database(database)
    for name in warp_tables(db, database, table):
        began = time.monotonic()
        with writing(db):
            db.execute(f"INSERT INTO {quoted(name)}({quoted(name)}) VALUES ('optimize')")
        click.echo(f"{name}: {time.monotonic() - began:.1f} s")
