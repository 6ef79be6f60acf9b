"""The interface between a connection and an application: the head of a request, its body as bytes, and a reply."""

from typing import Protocol

import msgspec

JSON = b"content-type: application/json\r\n"
TEXT = b"content-type: text/plain; charset=utf-8\r\n"


class Head(msgspec.Struct, gc=False):
    """What precedes a request's body, as far as it is used here."""

    method: bytes
    path: bytes  # as sent; nothing is decoded
    query: bytes
    media: bytes  # Content-Type, as sent
    arrived: float  # `time.perf_counter` when the last header had arrived
    peer: str  # address and port of the client


class Reply(msgspec.Struct, frozen=True, gc=False):
    """One response. Content-Length and, if needed, `Connection: close` are added to its headers."""

    status: int
    body: bytes
    headers: bytes = JSON  # whole lines, each with its CRLF
    close: bool = False


class Application(Protocol):
    """What a port does with requests."""

    def early(self, head: Head) -> Reply | None:
        """The response to a request whose body need not be read; None if it must be."""

    def answer(self, head: Head, body: bytes) -> Reply:
        """The response to a whole request. It must not raise: that would end the connection without a response."""


class Refuse(Protocol):
    """Called whenever a client is rejected. `reason` is a metric label, from a closed set."""

    def __call__(self, reason: str, peer: str = "", problem: str = "") -> object: ...
