"""What a connection and an application say to each other: the head of a request, its body as bytes, and a reply."""

from typing import Protocol

import msgspec

JSON = b"content-type: application/json\r\n"
TEXT = b"content-type: text/plain; charset=utf-8\r\n"


class Head(msgspec.Struct, gc=False):
    """What a request says before its body, as far as anybody here asks."""

    method: bytes
    path: bytes  # as sent; nothing is decoded
    query: bytes
    media: bytes  # Content-Type, as sent
    arrived: float  # `time.perf_counter` when the last header had come
    peer: str  # address and port of the client


class Reply(msgspec.Struct, frozen=True, gc=False):
    """One answer. Content-Length and, where it is due, `Connection: close` are added to its headers."""

    status: int
    body: bytes
    headers: bytes = JSON  # whole lines, each with its CRLF
    close: bool = False


class Application(Protocol):
    """What a port does with requests."""

    def early(self, head: Head) -> Reply | None:
        """The answer to a request whose body need not be read; None where it must be."""

    def answer(self, head: Head, body: bytes) -> Reply:
        """The answer to a whole request. It is not to raise: that ends the connection without an answer."""


class Refuse(Protocol):
    """Told whenever somebody is turned away. `reason` is a metric's label, from a closed set."""

    def __call__(self, reason: str, peer: str = "", problem: str = "") -> object: ...
