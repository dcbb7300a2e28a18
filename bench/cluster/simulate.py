#!/usr/bin/env python3
"""Clusters larger than what is here: measured times of shards, and a modelled network.

    bench/cluster/simulate.py MEASURED.jsonl [--machines 16] [--queries 32] [--grows 1.0]

MEASURED.jsonl: what overhead.py prints, with --sizes. From it come the time of a shard, fitted as a + b · rows^grows
(1: every row is compared; 0.5: inverted files whose lists grow with the root of the rows), how that scatters, and what a
call costs, once and for each actor. Modelled, not measured: the network (latency, bandwidth, one link to the coordinator), pauses of
stragglers, and that a machine searches its shard with all of its cores, as fast as this machine does for each two of them.

Prints lines of JSON, one for each number of rows and machines: median and 99th percentile of a batch with and without
replicas that are asked after the 95th percentile, bytes that go over the network, and what bounds it.
"""

import argparse
import json

import numpy as np

K = 10
TRIALS = 20_000


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file if line.startswith("{")]


class Shard:
    """Seconds that a shard takes for a batch: a fit of what was measured, and its scatter."""

    def __init__(self, lines, queries, grows, speed):
        rows = [line for line in lines if line["what"] == "shard" and line["queries"] == queries]
        sizes = np.array([line["rows"] for line in rows], float)
        medians = np.array([np.median(line["times_ms"]) for line in rows]) / 1000
        weights = np.stack([np.ones_like(sizes), sizes**grows], axis=1) / medians[:, None]
        (self.fixed, self.slope), *_ = np.linalg.lstsq(weights, np.ones_like(medians), rcond=None)
        self.fixed = max(self.fixed, 0.0)
        self.error = float(np.max(np.abs(self.fixed + self.slope * sizes**grows - medians) / medians))
        # Of the largest shard: what delays a short search for a moment does not delay a long one as many times.
        largest = max(rows, key=lambda line: line["rows"])["times_ms"]
        self.scatter = np.array(largest) / np.median(largest)
        self.grows, self.speed = grows, speed

    def median(self, rows):
        return self.fixed + self.slope * rows**self.grows / self.speed

    def draw(self, random, rows, shape):
        return self.median(rows) * random.choice(self.scatter, shape)


def percentile(values, part):
    return round(float(np.percentile(values, part)) * 1000, 2)


def simulate(options, shard, call, rows, machines):
    random = np.random.default_rng(7)
    asked = 200 + options.queries * options.dim * 4
    answered = 200 + options.queries * K * 16

    def answers(shape):
        pauses = (random.random(shape) < options.pauses) * random.exponential(options.pause_ms / 1000, shape)
        return shard.draw(random, rows / machines, shape) + pauses

    link = options.gigabits * 1e9 / 8
    network = 2 * options.latency_us / 1e6 + machines * (asked + answered) / link
    coordinator = call[0] + machines * call[1] + machines * options.queries * K * options.merge
    times = answers((TRIALS, machines))
    patience = np.percentile(times, 95)
    second = patience + answers((TRIALS, machines))
    hedged = np.where(times > patience, np.minimum(times, second), times)
    alone, with_replicas = (t.max(axis=1) + network + coordinator for t in (times, hedged))
    search = shard.median(rows / machines)
    print(json.dumps({
        "rows": rows, "machines": machines, "queries": options.queries, "shard_ms": round(search * 1000, 2),
        "p50_ms": percentile(alone, 50), "p99_ms": percentile(alone, 99),
        "p50_replicas_ms": percentile(with_replicas, 50), "p99_replicas_ms": percentile(with_replicas, 99),
        "stragglers_ms": percentile(times.max(axis=1) - np.median(times), 50),
        "network_ms": round(network * 1000, 3), "coordinator_ms": round(coordinator * 1000, 3),
        "bytes": machines * (asked + answered), "twice_the_work": round(float((times > patience).mean()), 3),
        "bound_by": "the coordinator" if coordinator + network > search else "the shards",
    }), flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured")
    parser.add_argument("--machines", default=16, type=int)
    parser.add_argument("--cores", default=64, type=int, help="of each")
    parser.add_argument("--queries", default=32, type=int)
    parser.add_argument("--grows", default=1.0, type=float)
    parser.add_argument("--latency-us", default=100.0, type=float, help="one way")
    parser.add_argument("--gigabits", default=25.0, type=float, help="of the coordinator's link")
    parser.add_argument("--pauses", default=0.002, type=float, help="part of the answers that a pause delays")
    parser.add_argument("--pause-ms", default=50.0, type=float, help="on average")
    options = parser.parse_args()
    lines = read(options.measured)
    [machine] = [line for line in lines if line["what"] == "machine"][-1:]
    options.dim = machine["dim"]
    shard = Shard(lines, options.queries, options.grows, options.cores / machine["cores"])
    calls = [line for line in lines if line["what"] == "call"]
    calls = [line for line in calls if line["queries"] == min(line["queries"] for line in calls)]
    asked = np.array([[1.0, line["actors"]] for line in calls])
    call, *_ = np.linalg.lstsq(asked, np.array([line["overhead_ms"] / 1000 for line in calls]), rcond=None)
    options.merge = max(line["ns_a_row"] for line in lines if line["what"] == "merge") / 1e9
    print(json.dumps({"fit_error": round(shard.error, 3), "call_ms": [round(c * 1000, 3) for c in call], "index": machine["index"]}))
    for rows in (1e6, 1e7, 1e8, 1e9, 1e10):
        for machines in sorted({1, 4, options.machines}):
            simulate(options, shard, call, int(rows), machines)
    for machines in (32, 64, 128, 256, 512):  # where it stops
        simulate(options, shard, call, 10**10, machines)


if __name__ == "__main__":
    main()
