"""What the programs that measure by SQL have in common: one JSON line a case, and medians of times."""

import json
import time


def report(case, **values):
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}
    print(json.dumps({"case": case, **rounded}), flush=True)


def timed(statement, count):
    """The median of so many runs, in milliseconds."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        statement()
        times.append(time.perf_counter() - begin)
    return sorted(times)[count // 2] * 1e3
