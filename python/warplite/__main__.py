"""python -m warplite."""

from .cli import main

main(prog_name="warplite")
