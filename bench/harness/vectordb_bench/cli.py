from typing import Annotated, Unpack

import click

from ....cli.cli import CommonTypedDict, cli, click_parameter_decorators_from_typed_dict, run
from .. import DB
from .config import WarpliteConfig, WarpliteIndexConfig


class WarpliteTypedDict(CommonTypedDict):
    path: Annotated[str, click.option("--path", type=str, default="warplite.db", help="the database file")]
    index: Annotated[str, click.option("--index", type=str, default="flat", help="as in SQL, e.g. 'ivfpq(bits=4)'")]
    nprobe: Annotated[int | None, click.option("--nprobe", type=int, help="of each search")]


@cli.command()
@click_parameter_decorators_from_typed_dict(WarpliteTypedDict)
def Warplite(**parameters: Unpack[WarpliteTypedDict]):
    run(
        db=DB.Warplite,
        db_config=WarpliteConfig(db_label=parameters["db_label"], path=parameters["path"]),
        db_case_config=WarpliteIndexConfig(index=parameters["index"], nprobe=parameters["nprobe"]),
        **parameters,
    )
