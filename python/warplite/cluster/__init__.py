"""Shards of one table on Ray: more rows than a machine holds, or more GPUs than it has.

    import ray, warplite.cluster
    ray.init()
    warplite.cluster.create("/data/papers", "CREATE VIRTUAL TABLE papers USING warp(e FLOAT[96], year INTEGER)",
                            source="papers.parquet", shards=4)
    with warplite.cluster.open("/data/papers") as cluster:
        found = cluster.search("e", queries, k=10, filter="year > 2020")

A cluster is a folder that every machine sees: `manifest.json`, the models that indexes learnt, and one SQLite file a
shard, each with the table as the statement declares it. A row's rowid is its id in the whole cluster, so that answers
of shards merge by (distance, id), and are, row for row, those of one file with all of the rows.

**Generations.** A file that a manifest names never changes. To add, delete or compact rows is to write new files for
the shards concerned, under other names, and then a manifest of the next generation, which is renamed into place. So
a reader that holds a manifest sees all of a commit or nothing of it, whatever becomes of the writer; no reader waits,
no snapshot has to be held open, a file can be opened by any tool or copied anywhere, and a restarted actor sees what
the one before it saw. A query reads one manifest, and asks shards for files by name. Files of earlier generations are
kept for `KEEP_SECONDS`; a query that took longer, and finds one gone, begins again with the newest manifest. What is
paid for that is writing: rows are added to a copy of the smallest shard, or to a new shard once that is large.

**Failures.** A task that dies runs again: it builds its file under a name of its own and renames it when it is
whole, and a file that no manifest names is no part of the cluster. A question to a shard that fails is asked again,
then of a replica, and is then an error, never a smaller answer, unless `allow_partial=True` asks for one that says
which share of the rows it covers.

**Time.** A search has `timeout` seconds from its call on, which pass while it waits for its turn, too. An actor is told
how many are left, and interrupts what takes longer. What has waited for longer is not searched for, and neither is what
nobody waits for any more.

One writer at a time (a lock in the folder sees to that), any number of readers. POSIX only. `warplite[cluster]` has
what this needs; nothing else of the package imports it.
"""

from ._answers import Answer, Fused, Matches, Neighbors, Pairs, Sequences
from ._cluster import Cluster, create, open
from ._errors import ClusterError, OverloadedError, ShardError, TimedOutError

__all__ = [
    "Answer",
    "Cluster",
    "ClusterError",
    "Fused",
    "Matches",
    "Neighbors",
    "OverloadedError",
    "Pairs",
    "Sequences",
    "ShardError",
    "TimedOutError",
    "create",
    "open",
]
