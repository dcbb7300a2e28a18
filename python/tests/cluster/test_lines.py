"""Lines to actors: what goes through, and what is refused."""

import socket
import struct

import pytest

from warplite.cluster._lines import Exchange, answer_of, open_line

SECRET = b"s" * 32


@pytest.fixture
def exchange():
    def answer(request, question):
        if request == b"wrong":
            raise ValueError("wrong " + question.decode())
        if request == b"strange":
            raise type("StrangeError", (Exception,), {})("of a class that nobody else has")
        return request + question

    return Exchange("127.0.0.1", SECRET, answer)


def ask(line, request, question):
    line.send(request, question, 5)
    return line.receive(60)


def test_answers_and_errors(exchange):
    lines = [open_line(exchange.address, SECRET) for _ in range(3)]
    for line in lines * 2:
        assert ask(line, b"a", b"b" * 3_000_000) == (b"a" + b"b" * 3_000_000, b"")
        with pytest.raises(ValueError, match="wrong question"):
            answer_of(*ask(line, b"wrong", b"question"))
        with pytest.raises(RuntimeError, match="StrangeError: of a class"):
            answer_of(*ask(line, b"strange", b""))


def test_who_does_not_know_the_secret(exchange):
    with pytest.raises(ConnectionError):
        open_line(exchange.address, b"t" * 32)
    stranger = socket.create_connection(exchange.address)
    stranger.sendall(struct.pack("<QQ", 1 << 60, 0))  # no memory is taken for it
    stranger.settimeout(60)
    while stranger.recv(1000):
        pass
    assert ask(open_line(exchange.address, SECRET), b"a", b"") == (b"a", b"")


def test_who_answers_in_an_actors_place():
    silent = socket.create_server(("127.0.0.1", 0))
    other = Exchange("127.0.0.1", b"t" * 32, lambda request, question: b"")
    for address in (silent.getsockname(), other.address):
        with pytest.raises(ConnectionError):
            open_line(address, SECRET)


def test_a_line_that_breaks(exchange):
    line = open_line(exchange.address, SECRET)
    exchange._answer = lambda request, question: line._socket.shutdown(socket.SHUT_RDWR) or b""
    line.send(b"a", b"", 5)
    with pytest.raises((EOFError, OSError)):
        line.receive(60)
