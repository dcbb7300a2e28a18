"""Lines: connections from who asks to actors, past Ray.

A question through Ray passes three threads on each side, which takes 3 milliseconds on a machine whose cores have just
searched; through a socket it takes a tenth of that. Whatever is wrong with a line, Ray carries the question instead.
Both sides prove that they know the cluster's secret before anything is unpickled.
"""

from __future__ import annotations

import hmac
import os
import pickle
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

_LENGTHS = struct.Struct("<QQ")  # of the two parts of a message
_NONCE = 32
_HANDSHAKE_SECONDS = 0.5
MOST_BYTES = 1 << 20  # of a question: what is larger might wait for an actor that hangs to take it

Address = tuple[str, int]


class Line:
    """One question at a time. Errors: OSError for a line that is of no use any more. Threads: one."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, first: bytes, second: bytes = b"", seconds: float | None = None) -> None:
        self._socket.settimeout(seconds)
        self._socket.sendall(b"".join((_LENGTHS.pack(len(first), len(second)), first, second)))

    def receive(self, seconds: float | None = None, most: int | None = None) -> tuple[bytes, bytes]:
        """Raises EOFError, too, where the other side is gone. most: bytes that may come."""
        self._socket.settimeout(seconds)
        first, second = _LENGTHS.unpack(self._take(_LENGTHS.size))
        if most is not None and first + second > most:
            raise ConnectionError("this is no answer to what was asked")
        return self._take(first), self._take(second)

    def _take(self, size: int) -> bytes:
        taken = bytearray(size)
        rest = memoryview(taken)
        while rest:
            count = self._socket.recv_into(rest)
            if count == 0:
                raise EOFError("the line was closed")
            rest = rest[count:]
        return bytes(taken)


def open_line(address: Address, secret: bytes) -> Line:
    """Raises OSError where nobody who knows the secret answers there."""
    connection = socket.create_connection(address, timeout=_HANDSHAKE_SECONDS)
    line = Line(connection)
    try:
        theirs, _ = line.receive(_HANDSHAKE_SECONDS, _NONCE)
        mine = os.urandom(_NONCE)
        line.send(mine, _proof(secret, b"asks", theirs), _HANDSHAKE_SECONDS)
        proof, _ = line.receive(_HANDSHAKE_SECONDS, _NONCE)
        if not hmac.compare_digest(proof, _proof(secret, b"answers", mine)):
            raise ConnectionError(f"{address}: it is somebody else's")
    except (OSError, EOFError) as error:
        line.close()
        raise ConnectionError(str(error)) from error
    return line


def _proof(secret: bytes, who: bytes, nonce: bytes) -> bytes:
    return hmac.digest(secret, who + nonce, "sha256")


class Exchange:
    """Answers whoever connects and knows the secret, each line by a thread of its own."""

    def __init__(self, host: str, secret: bytes, answer: Callable[[bytes, bytes], bytes]) -> None:
        self._server = socket.create_server((host, 0))
        self._secret, self._answer = secret, answer
        self.address: Address = self._server.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._server.accept()
            threading.Thread(target=self._serve, args=(Line(connection),), daemon=True).start()

    def _serve(self, line: Line) -> None:
        try:
            nonce = os.urandom(_NONCE)
            line.send(nonce, seconds=_HANDSHAKE_SECONDS)
            theirs, proof = line.receive(_HANDSHAKE_SECONDS, 2 * _NONCE)
            if not hmac.compare_digest(proof, _proof(self._secret, b"asks", nonce)):
                return
            line.send(_proof(self._secret, b"answers", theirs), seconds=_HANDSHAKE_SECONDS)
            while True:
                line.send(*self._carry_out(*line.receive()))
        except (OSError, EOFError):
            pass
        finally:
            line.close()

    def _carry_out(self, request: bytes, question: bytes) -> tuple[bytes, bytes]:
        """Returns the answer, or what it raised."""
        try:
            return self._answer(request, question), b""
        except Exception as error:
            return b"", _packed(error)


def _packed(error: Exception) -> bytes:
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # some can be written, and not read
        return packed
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


def answer_of(answer: bytes, error: bytes) -> Any:
    """Returns what an actor has answered. Raises what it raised."""
    if error:
        raise pickle.loads(error)
    return pickle.loads(answer)
