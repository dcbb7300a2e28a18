"""Who may search now, and who waits for that."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ._errors import ClusterError, OverloadedError, TimedOutError


class Caller:
    """Somebody who waits for one answer, and may leave. Threads: any."""

    def __init__(self) -> None:
        self.has_left = False
        self.called = threading.Event()  # it is the caller's turn, or there will be none

    def leave(self) -> None:
        """Says that nobody waits any more: what has not begun is not searched for."""
        self.has_left = True
        self.called.set()


CALLER: ContextVar[Caller | None] = ContextVar("CALLER", default=None)
"""Who has a search made for it by another thread; a search that nobody is named for is its own thread's."""


class Gate:
    """Lets so many search at once. Others wait, and their turn is in the order in which they came. Threads: any."""

    def __init__(self, in_flight: int, waiting: int) -> None:
        self.places = in_flight + waiting
        self._lock = threading.Lock()
        self._free, self._waiting = in_flight, waiting
        self._queue: deque[Caller] = deque()

    @contextmanager
    def place(self, end: float) -> Iterator[None]:
        """Waits for a turn, until `end` by time.monotonic(), and holds the place.

        Raises OverloadedError where too many wait already, TimedOutError at the end, and ClusterError where the caller
        has left.
        """
        caller = CALLER.get() or Caller()
        with self._lock:
            must_wait = self._free == 0
            if not must_wait:
                self._free -= 1
            elif len(self._queue) < self._waiting:
                self._queue.append(caller)
            else:
                raise OverloadedError("too many searches wait; ask again later")
        if must_wait:
            caller.called.wait(max(0.0, end - time.monotonic()))
            with self._lock:
                if caller in self._queue:
                    self._queue.remove(caller)
                    raise _left() if caller.has_left else TimedOutError("it took too long: others were searched for")
        try:
            if caller.has_left:
                raise _left()
            yield
        finally:
            with self._lock:
                if self._queue:
                    self._queue.popleft().called.set()
                else:
                    self._free += 1


def _left() -> ClusterError:
    return ClusterError("nobody waits for the answer any more")
