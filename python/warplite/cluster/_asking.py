"""Actors that hold shards, and how a question gets its answer from them whatever happens to some.

An actor has a group of shards, and opens whatever files of theirs a question names. A group has one actor for each
replica. What fails is asked again: of the next replica where there is one, of the same actor, once Ray has started it
again, where there is none.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from .._loading import connect
from ._answers import Columns
from ._errors import ShardError
from ._manifest import Shard
from ._reading import Question, Reader, UnreadableError, merge

_GRACE = 2.0  # seconds that an actor gets to end a search whose time is over


class ShardActor:
    """Runs in a process of its own, one question at a time."""

    def __init__(self, settings: dict[str, Any]) -> None:
        db = connect(":memory:")
        for name, value in {"external_access": 0, **settings}.items():
            db.execute("SELECT warp_config(?, ?)", (name, value)).fetchall()
        db.close()
        self._readers: dict[str, Reader] = {}
        self._generation = 0

    def answer(
        self, generation: int, shards: list[list[str]], question: Question, seconds: float
    ) -> tuple[Columns | None, dict[int, str]]:
        """Returns what the shards answer together, and why some did not, by their places in the list.

        shards: of each, the file and its copies, the first to be read first. Raises TimeoutError after so many seconds.
        """
        self._forget_files(generation, shards)
        parts, failed = [], {}
        end = time.monotonic() + seconds
        for place, copies in enumerate(shards):
            try:
                parts.append(self._ask_copies(copies, question, end))
            except UnreadableError as error:
                failed[place] = str(error)
        return (merge(question, parts) if parts else None), failed

    def ready(self) -> int:
        """Returns the number of its process."""
        return os.getpid()

    def _ask_copies(self, copies: list[str], question: Question, end: float) -> Columns:
        errors = []
        for path in copies:
            try:
                return self._ask(path, question, end)
            except UnreadableError as error:
                errors.append(str(error))
                self._close(path)
        raise UnreadableError("; ".join(errors))

    def _ask(self, path: str, question: Question, end: float) -> Columns:
        reader = self._reader(path)
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{path}: no time was left for it")
        timer = threading.Timer(left, reader.interrupt)
        timer.start()
        try:
            return reader.answer(question)
        finally:
            timer.cancel()

    def _reader(self, path: str) -> Reader:
        if path not in self._readers:
            self._readers[path] = Reader(path)
        return self._readers[path]

    def _close(self, path: str) -> None:
        reader = self._readers.pop(path, None)
        if reader is not None:
            reader.close()

    def _forget_files(self, generation: int, shards: list[list[str]]) -> None:
        """Closes what a newer generation does not name. A question that is still of an older one opens it again."""
        if generation <= self._generation:
            return
        self._generation = generation
        named = {path for copies in shards for path in copies}
        for path in self._readers.keys() - named:
            self._close(path)


@dataclass
class _Errand:
    """Shards of one group that are to be asked, and how often they were."""

    group: int
    shards: list[Shard]
    replica: int  # whom to ask next
    tries: int = 0
    losses: int = 0  # tries that ended with their actor; these do not count
    begun: float = field(default_factory=time.monotonic)
    asked: float = 0.0  # when, for the last time
    waiting: int = 0  # for so many answers
    done: bool = False


@dataclass(frozen=True)
class Policy:
    """How long to wait and how often to ask.

    timeout: seconds that shards have for an answer. patience: seconds after which a replica is asked, too. tries: how
    often shards are asked in all. ahead: questions that an actor may have to answer first, this one counted.
    """

    timeout: float = 30.0
    patience: float = 1.0
    tries: int = 4
    ahead: int = 1

    @property
    def hangs(self) -> float:
        """Seconds after which an actor that has not said a word hangs."""
        return self.ahead * (self.timeout + _GRACE)


class Actors:
    """The actors of a cluster. Threads: any."""

    def __init__(self, groups: int, replicas: int, settings: dict[str, Any], options: dict[str, Any]) -> None:
        remote: Any = ray.remote(ShardActor)
        # Without a replica, Ray asks an actor again that it has started again.
        retries = 0 if replicas > 1 else 3
        options = {"max_restarts": -1, "max_task_retries": retries, "scheduling_strategy": "SPREAD", **options}
        self.groups = [[remote.options(**options).remote(settings) for _ in range(replicas)] for _ in range(groups)]
        self._turn = itertools.count()

    def close(self) -> None:
        for actor in itertools.chain(*self.groups):
            ray.kill(actor)

    def ask(
        self, generation: int, shards: Sequence[Shard], folders: Sequence[str], question: Question, policy: Policy
    ) -> tuple[list[Columns], dict[Shard, str]]:
        """Returns the answers of groups of shards, and why some shards gave none."""
        return _Round(self, generation, folders, question, policy, next(self._turn)).run(shards)


@dataclass
class _Round:
    """One question on its way. Threads: one."""

    actors: Actors
    generation: int
    folders: Sequence[str]
    question: Question
    policy: Policy
    turn: int
    answers: list[Columns] = field(default_factory=list)
    failed: dict[Shard, str] = field(default_factory=dict)
    errands: dict[Any, tuple[_Errand, Any]] = field(default_factory=dict)  # by what Ray is to return; and of whom

    def run(self, shards: Sequence[Shard]) -> tuple[list[Columns], dict[Shard, str]]:
        groups = self.actors.groups
        self.shared = ray.put(self.question)
        for group, actors in enumerate(groups):
            mine = [shard for shard in shards if shard.number % len(groups) == group]
            if mine:
                self._send(_Errand(group, mine, self.turn % len(actors)))
        while any(not errand.done for errand, _ in self.errands.values()):
            done, _ = ray.wait(list(self.errands), timeout=self._seconds_to_wait())
            for reference in done:
                errand, _actor = self.errands.pop(reference)
                errand.waiting -= 1
                if not errand.done:
                    self._take(errand, reference)
            if not done:
                self._look_at_the_clock()
        return self.answers, self.failed

    def _send(self, errand: _Errand) -> None:
        actors = self.actors.groups[errand.group]
        replica = errand.replica % len(actors)
        folders = [*self.folders[replica % len(self.folders) :], *self.folders[: replica % len(self.folders)]]
        files = [[os.path.join(folder, shard.file) for folder in folders] for shard in errand.shards]
        actor = actors[replica]
        reference = actor.answer.remote(self.generation, files, self.shared, self.policy.timeout)
        self.errands[reference] = (errand, actor)
        errand.tries, errand.replica, errand.waiting = errand.tries + 1, errand.replica + 1, errand.waiting + 1
        errand.asked = time.monotonic()

    def _take(self, errand: _Errand, reference: Any) -> None:
        try:
            columns, broken = ray.get(reference)
        except RayTaskError as error:
            if not isinstance(error.cause, TimeoutError):
                raise error.cause from None  # the question is wrong
            self._again(errand, str(error.cause), other_actor=True)
        except RayError as error:
            self._after_loss(errand, f"{type(error).__name__}: {str(error).splitlines()[0]}")
        else:
            errand.done = True
            if columns is not None:
                self.answers.append(columns)
            rest = [errand.shards[place] for place in sorted(broken)]
            if rest:
                self._again(
                    _Errand(errand.group, rest, errand.replica, errand.tries),
                    "; ".join(broken.values()),
                    other_actor=True,
                )

    def _after_loss(self, errand: _Errand, reason: str) -> None:
        """Asks again for as long as Ray may need to start actors again: all replicas may have been lost at once."""
        errand.losses, errand.tries = errand.losses + 1, errand.tries - 1
        if time.monotonic() < errand.begun + self.policy.hangs:
            if errand.losses >= len(self.actors.groups[errand.group]):
                time.sleep(0.1)
            self._send(errand)
        elif not errand.waiting:
            self._give_up(errand, reason)

    def _give_up(self, errand: _Errand, reason: str) -> None:
        errand.done = True
        self.failed.update(dict.fromkeys(errand.shards, reason))

    def _again(self, errand: _Errand, reason: str, other_actor: bool = False) -> None:
        """Asks again, of another actor if only that can help, or gives up."""
        replicas = len(self.actors.groups[errand.group])
        if errand.tries < self.policy.tries and (replicas > 1 or not other_actor):
            self._send(errand)
        elif not errand.waiting:
            self._give_up(errand, reason)

    def _seconds_to_wait(self) -> float:
        waiting = [errand for errand, _ in self.errands.values()]
        patience = min((self._patience(e) for e in waiting if not e.done), default=0.0)
        return max(0.0, patience - time.monotonic()) + 0.001

    def _patience(self, errand: _Errand) -> float:
        """Returns when the clock is to be looked at for the errand."""
        return errand.asked + (self.policy.patience if self._may_ask(errand) else self.policy.hangs)

    def _may_ask(self, errand: _Errand) -> bool:
        """Whether there is an actor that was not asked yet, or has answered that it cannot."""
        return len(self.actors.groups[errand.group]) > errand.waiting and errand.tries < self.policy.tries

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        for reference, (errand, actor) in list(self.errands.items()):
            if errand.done:  # another replica answered it
                del self.errands[reference]
            elif now < self._patience(errand):
                continue
            elif self._may_ask(errand):
                self._send(errand)
            else:
                # It does not even end: whatever it hangs in, Ray starts another.
                ray.kill(actor, no_restart=False)
                del self.errands[reference]
                errand.waiting -= 1
                self._again(errand, f"no answer within {self.policy.hangs:g} s")


def shard_error(failed: dict[Shard, str]) -> ShardError:
    reasons = sorted({f"{shard.file}: {reason}" for shard, reason in failed.items()})
    return ShardError(f"{len(failed)} shards gave no answer: " + "; ".join(reasons)[:2000])
