"""How a question gets its answer from the actors that hold shards, whatever happens to some.

A group of shards has one actor for each replica. What fails is asked again: of the next replica where there is one, of
the same actor, once Ray has started it again, where there is none.
"""

from __future__ import annotations

import itertools
import os
import pickle
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from ._actor import ShardActor
from ._answers import Columns
from ._errors import ShardError, TimedOutError
from ._lines import MOST_BYTES, Line, answer_of, open_line
from ._manifest import Shard
from ._reading import Question

_INLINE_BYTES = 100_000  # of a call's arguments; Ray's limit is 102,400
_STALL = 5.0  # seconds that bytes of an answer may keep those waiting that follow them
_NO_LINE_SECONDS = 5.0  # until a line is tried again, where there was none
_GRACE = 2.0  # seconds that an actor gets to end a search whose time is over


@dataclass
class _Errand:
    """Shards of one group that are to be asked, and how often they were."""

    group: int
    shards: list[Shard]
    replica: int  # whom to ask next
    tries: int = 0
    losses: int = 0  # tries that ended with their actor; these do not count
    asked: float = 0.0  # when, for the last time
    waiting: int = 0  # for so many answers
    done: bool = False


@dataclass(frozen=True)
class Policy:
    """How long to wait and how often to ask.

    timeout: seconds that an answer may take. patience: seconds after which a replica is asked, too. tries: how often
    shards are asked in all. ahead: questions that an actor may have to answer first, this one counted.
    """

    timeout: float = 30.0
    patience: float = 1.0
    tries: int = 4
    ahead: int = 1

    @property
    def hangs(self) -> float:
        """Seconds after which an actor that has not said a word hangs, and is not just starting."""
        return self.ahead * self.timeout


class _LostError(Exception):
    """An actor, or the way to it, is no more."""


class _Lines:
    """Lines to one actor that nobody uses just now. Threads: any."""

    def __init__(self, actor: Any, secret: bytes) -> None:
        self._actor, self._secret = actor, secret
        self._lock = threading.Lock()
        self._idle: list[Line] = []
        self.address: Any = actor.address.remote()
        self._not_before = 0.0
        self._closed = False

    def take(self) -> Line | None:
        """Returns None where there is none for now. It does not wait for an actor that is not there yet."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            address = self.address
            if self._closed or time.monotonic() < self._not_before or not ray.wait([address], timeout=0)[0]:
                return None
        try:
            return open_line(ray.get(address), self._secret)
        except (RayError, OSError):
            with self._lock:
                self._not_before = time.monotonic() + _NO_LINE_SECONDS
                self.address = self._actor.address.remote()  # it may have moved
            return None

    def give(self, line: Line) -> None:
        with self._lock:
            if self._closed:
                line.close()
            else:
                self._idle.append(line)

    def close(self) -> None:
        with self._lock:
            for line in self._idle:
                line.close()
            self._idle, self._closed = [], True


class Actors:
    """The actors of a cluster. Threads: any."""

    def __init__(
        self, groups: int, replicas: int, shares: int, settings: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """shares: of how many groups a machine has actors."""
        remote: Any = ray.remote(ShardActor)
        # Without a replica, Ray asks an actor again that it has started again.
        retries = 0 if replicas > 1 else 3
        options = {"max_restarts": -1, "max_task_retries": retries, "scheduling_strategy": "SPREAD", **options}
        secret = os.urandom(32)
        arguments = (settings, shares, secret)
        self.groups = [[remote.options(**options).remote(*arguments) for _ in range(replicas)] for _ in range(groups)]
        self.lines = [[_Lines(actor, secret) for actor in actors] for actors in self.groups]
        self._turn = itertools.count()
        self.silent: dict[tuple[int, int], float] = {}  # since when actors have been asked, and said nothing
        self._have_started = False

    def wait(self, seconds: float) -> None:
        """Waits, if this is the first time, until each group has an actor that has started."""
        end = time.monotonic() + seconds
        for lines in () if self._have_started else self.lines:
            ray.wait([line.address for line in lines], timeout=max(0.0, end - time.monotonic()))
        self._have_started = True

    def close(self) -> None:
        for lines in itertools.chain(*self.lines):
            lines.close()
        for actor in itertools.chain(*self.groups):
            ray.kill(actor)

    def ask(
        self,
        generation: int,
        shards: Sequence[Shard],
        folders: Sequence[str],
        question: Question,
        policy: Policy,
        end: float,
    ) -> tuple[list[Columns], dict[Shard, str]]:
        """Returns the answers of groups of shards, and why some shards gave none until `end`, by time.monotonic()."""
        return _Round(self, generation, folders, question, policy, end, next(self._turn)).run(shards)


@dataclass
class _Round:
    """One question on its way. Threads: one."""

    actors: Actors
    generation: int
    folders: Sequence[str]
    question: Question
    policy: Policy
    end: float
    turn: int
    answers: list[Columns] = field(default_factory=list)
    failed: dict[Shard, str] = field(default_factory=dict)
    errands: dict[Any, tuple[_Errand, int]] = field(default_factory=dict)  # by line or Ray's reference; which replica

    packed: bytes = b""  # the question
    shared: Any = None  # the same as Ray carries it, once it has to

    def run(self, shards: Sequence[Shard]) -> tuple[list[Columns], dict[Shard, str]]:
        groups = self.actors.groups
        self.packed = pickle.dumps(self.question)
        try:
            for group, actors in enumerate(groups):
                mine = [shard for shard in shards if shard.number % len(groups) == group]
                if mine:
                    self._send(_Errand(group, mine, self.turn % len(actors)))
            while any(not errand.done for errand, _ in self.errands.values()):
                done = self._wait(self._seconds_to_wait())
                for way in done:
                    errand, replica = self.errands.pop(way)
                    errand.waiting -= 1
                    if not errand.done:
                        self._take(errand, replica, way)
                    else:
                        self._drop(way)
                if not done:
                    self._look_at_the_clock()
        finally:
            for way in self.errands:
                self._drop(way)
        return self.answers, self.failed

    def _wait(self, seconds: float) -> list[Any]:
        """Returns those of the ways by which something has come."""
        lines: list[Any] = [way for way in self.errands if isinstance(way, Line)]
        references = [way for way in self.errands if not isinstance(way, Line)]
        if not references:
            return list(connection.wait(lines, seconds))
        if not lines:
            return list(ray.wait(references, timeout=seconds)[0])
        # Both at once are rare: something was lost.
        return list(connection.wait(lines, 0)) or list(ray.wait(references, timeout=min(seconds, 0.005))[0])

    def _drop(self, way: Any) -> None:
        """Forgets a way by which an answer may still come."""
        if isinstance(way, Line):
            way.close()

    def _send(self, errand: _Errand) -> None:
        actors = self.actors.groups[errand.group]
        replica = errand.replica % len(actors)
        folders = [*self.folders[replica % len(self.folders) :], *self.folders[: replica % len(self.folders)]]
        files = [[os.path.join(folder, shard.file) for folder in folders] for shard in errand.shards]
        request = pickle.dumps((self.generation, files, max(0.0, self.end - time.monotonic())))
        self.actors.silent.setdefault((errand.group, replica), time.monotonic())
        self.errands[self._way(errand.group, replica, request)] = (errand, replica)
        errand.tries, errand.replica, errand.waiting = errand.tries + 1, errand.replica + 1, errand.waiting + 1
        errand.asked = time.monotonic()

    def _way(self, group: int, replica: int, request: bytes) -> Any:
        """Sends the question by a line, or else through Ray, and returns by what the answer comes."""
        line = self.actors.lines[group][replica].take() if len(self.packed) <= MOST_BYTES else None
        if line is not None:
            try:
                line.send(request, self.packed, self.policy.patience)
                return line
            except OSError:
                line.close()
        if self.shared is None:  # one copy for all actors of a machine, where it is large
            self.shared = self.packed if len(self.packed) < _INLINE_BYTES else ray.put(self.packed)
        return self.actors.groups[group][replica].answer.remote(request, self.shared)

    def _answer(self, group: int, replica: int, way: Any) -> Any:
        """Raises what the actor raised, or _LostError."""
        if isinstance(way, Line):
            try:
                message = way.receive(_STALL)
            except (OSError, EOFError) as error:
                way.close()
                raise _LostError(f"{type(error).__name__}: {error}") from None
            self.actors.lines[group][replica].give(way)
            return answer_of(*message)
        try:
            return pickle.loads(ray.get(way))
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            raise _LostError(f"{type(error).__name__}: {str(error).splitlines()[0]}") from None

    def _take(self, errand: _Errand, replica: int, way: Any) -> None:
        self.actors.silent.pop((errand.group, replica), None)
        try:
            columns, broken = self._answer(errand.group, replica, way)
        except TimeoutError as error:
            self._again(errand, str(error), other_actor=True)
        except _LostError as error:
            self._after_loss(errand, str(error))
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
        """Asks again while there is time: all replicas may have been lost at once, and Ray starts them again."""
        errand.losses, errand.tries = errand.losses + 1, errand.tries - 1
        if time.monotonic() < self.end:
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
        if errand.tries < self.policy.tries and (replicas > 1 or not other_actor) and time.monotonic() < self.end:
            self._send(errand)
        elif not errand.waiting:
            self._give_up(errand, reason)

    def _seconds_to_wait(self) -> float:
        waiting = [errand for errand, _ in self.errands.values()]
        patience = min((self._patience(e) for e in waiting if not e.done), default=0.0)
        return max(0.0, patience - time.monotonic()) + 0.001

    def _patience(self, errand: _Errand) -> float:
        """Returns when the clock is to be looked at for the errand."""
        return errand.asked + self.policy.patience if self._may_ask(errand) else self.end + _GRACE

    def _may_ask(self, errand: _Errand) -> bool:
        """Whether there is time, and an actor that was not asked yet, or has answered that it cannot."""
        actors = len(self.actors.groups[errand.group])
        return actors > errand.waiting and errand.tries < self.policy.tries and time.monotonic() < self.end

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        for way, (errand, replica) in list(self.errands.items()):
            if errand.done:  # another replica answered it
                del self.errands[way]
                self._drop(way)
            elif now < self._patience(errand):
                continue
            elif self._may_ask(errand):
                self._send(errand)
            else:
                self._end_if_it_hangs(errand.group, replica)
                del self.errands[way]
                self._drop(way)
                errand.waiting -= 1
                self._again(errand, f"no answer within {self.policy.timeout + _GRACE:g} s")

    def _end_if_it_hangs(self, group: int, replica: int) -> None:
        """Whatever it hangs in, Ray starts another."""
        since = self.actors.silent.get((group, replica), self.end)
        if time.monotonic() >= since + self.policy.hangs:
            self.actors.silent.pop((group, replica), None)
            ray.kill(self.actors.groups[group][replica], no_restart=False)


def shard_error(failed: dict[Shard, str], end: float) -> ShardError:
    reasons = sorted({f"{shard.file}: {reason}" for shard, reason in failed.items()})
    kind = TimedOutError if time.monotonic() >= end else ShardError
    return kind(f"{len(failed)} shards gave no answer: " + "; ".join(reasons)[:2000])
