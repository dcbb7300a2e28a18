"""An actor that has a group of shards: it opens whatever files of theirs a question names."""

from __future__ import annotations

import os
import pickle
import threading
import time
from typing import Any

import ray

from .._loading import connect
from ._answers import Columns
from ._lines import Address, Exchange
from ._reading import Question, Reader, UnreadableError, merge


class ShardActor:
    """Runs in a process of its own, one question at a time, with one of `shares` of the machine's cores.

    Questions and answers are bytes, which come and go through Ray or by a line.
    """

    def __init__(self, settings: dict[str, Any], shares: int, secret: bytes) -> None:
        db = connect(":memory:")
        cores = {"threads": max(1, len(os.sched_getaffinity(0)) // shares)} if shares > 1 else {}
        # A filter is SQL, and could change settings: for all who search, until the process ends.
        for name, value in {**cores, **settings, "external_access": 0, "lock_configuration": 1}.items():
            db.execute("SELECT warp_config(?, ?)", (name, value)).fetchall()
        db.close()
        self._readers: dict[tuple[str, ...], Reader] = {}
        self._unreadable: set[str] = set()  # files that were, when they were last asked
        self._generation = 0
        self._busy = threading.Lock()
        host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        self._exchange = Exchange(host, secret, self.answer)

    def address(self) -> Address:
        """Returns where lines are answered."""
        return self._exchange.address

    def answer(self, request: bytes, question: bytes) -> bytes:
        """Returns, pickled, what the shards answer together or None, and why some did not, by their places in the list.

        request: generation; of each shard, the file and its copies, the first to be read first; seconds, after which it
        raises TimeoutError, whatever they passed with. question: a Question.
        """
        generation, shards, seconds = pickle.loads(request)
        end = time.monotonic() + seconds
        if not self._busy.acquire(timeout=seconds):
            raise TimeoutError("it took too long: others were answered")
        try:
            self._forget_files(generation, shards)
            return pickle.dumps(self._ask_all(shards, pickle.loads(question), end))
        finally:
            self._busy.release()

    def ready(self) -> int:
        """Returns the number of its process."""
        return os.getpid()

    def _ask_all(
        self, shards: list[list[str]], question: Question, end: float
    ) -> tuple[Columns | None, dict[int, str]]:
        parts: list[Columns] = []
        failed: dict[int, str] = {}
        readable = [next((path for path in copies if path not in self._unreadable), None) for copies in shards]
        places = [place for place, path in enumerate(readable) if path is not None]
        alone = [place for place, path in enumerate(readable) if path is None]
        most = Reader.MOST_FILES
        for group in (places[i : i + most] for i in range(0, len(places), most)):
            try:
                parts.append(self._ask(tuple(str(readable[place]) for place in group), question, end))
            except UnreadableError:  # of which of them, and whether it has a copy, is found out now
                alone += group
        for place in alone:
            try:
                parts.append(self._ask_copies(shards[place], question, end))
            except UnreadableError as error:
                failed[place] = str(error)
        return (merge(question, parts) if parts else None), failed

    def _ask_copies(self, copies: list[str], question: Question, end: float) -> Columns:
        errors = []
        for path in copies:
            try:
                answer = self._ask((path,), question, end)
                self._unreadable.discard(path)
                return answer
            except UnreadableError as error:
                errors.append(str(error))
                self._unreadable.add(path)
        raise UnreadableError("; ".join(errors))

    def _ask(self, paths: tuple[str, ...], question: Question, end: float) -> Columns:
        if paths not in self._readers:
            self._readers[paths] = Reader(paths, question.table)
        reader = self._readers[paths]
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{paths[0]}: no time was left for it")
        timer = threading.Timer(left, reader.interrupt)
        timer.start()
        try:
            return reader.answer(question)
        except UnreadableError:
            self._readers.pop(paths).close()
            raise
        finally:
            timer.cancel()

    def _forget_files(self, generation: int, shards: list[list[str]]) -> None:
        """Closes what a newer generation does not name. A question that is still of an older one opens it again."""
        if generation <= self._generation:
            return
        self._generation = generation
        self._unreadable.clear()
        named = {path for copies in shards for path in copies}
        for paths in [paths for paths in self._readers if not named.issuperset(paths)]:
            self._readers.pop(paths).close()
