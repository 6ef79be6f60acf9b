"""Requests for `/mutate` that are small: answered the moment they are whole, in the callback that says so.

For each request uvicorn makes a task, an event and a cycle, so that an application can read while it is being sent.
A review that has arrived needs none of that, and they cost more than TLS and the review's own work together. The
application is the same ASGI callable, and everything else goes uvicorn's way.
"""

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from webhook.server.connection import CLOSE, Connection, Connections

SMALL = 32 * 1024
"""Bytes of a body that is waited for here, as its Content-Length says. A larger one is streamed, so that it can be
refused before it is whole. A review of a pod has about 6 kB, and an API server always says how long it is."""

_FAILED = (
    b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 14\r\n\r\ninternal error"
)


class Direct(Connection):
    """A connection that does not make a task for a small review."""

    def __init__(self, config: Config, state: Connections, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config, state, loop)
        self._parts: list[bytes] | None = None  # of the body, while it is waited for
        self._arrived = 0.0
        self._body = b""
        self._start: Any = None
        self._answered = False
        self._call = cast(Callable[..., Coroutine[Any, Any, None]], self.app)

    def on_message_begin(self) -> None:
        # Not uvicorn's yet: that one begins with a scope, which only it needs.
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self.begin()

    def on_headers_complete(self) -> None:
        if self._is_ours():
            self.in_head = False
            self._parts = []
            self._arrived = perf_counter()
        else:
            self._leave_to_uvicorn()

    def _leave_to_uvicorn(self) -> None:
        """All of it after all, from the beginning."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        HttpToolsProtocol.on_message_begin(self)
        self.url, self.expect_100_continue = url, expects
        self.headers += headers  # in place: the scope has this very list
        super().on_headers_complete()

    def _is_ours(self) -> bool:
        """A plain, small review, which nothing before it on this connection holds up."""
        url = self.url
        return (
            self._is_small()
            and (url == b"/mutate" or url.startswith(b"/mutate?"))
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
            and not self.flow.write_paused
            and (self.cycle is None or self.cycle.response_complete)
        )

    def _is_small(self) -> bool:
        for name, value in self.headers:
            if name == b"content-length":
                return int(value) <= SMALL
        return False

    def on_body(self, body: bytes) -> None:
        if self._parts is None:
            super().on_body(body)
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        parts = self._parts
        if parts is None:
            super().on_message_complete()
            return
        self._parts = None
        self.reading = False
        self.since = self.shared.now
        if not self.transport.is_closing():
            self._answer(parts[0] if len(parts) == 1 else b"".join(parts))

    def _answer(self, body: bytes) -> None:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "https",
            "path": "/mutate",
            "raw_path": b"/mutate",
            "root_path": "",
            "query_string": self.url[8:],
            "headers": self.headers,
            "server": self.server,
            "client": self.client,
            "arrived": self._arrived,
        }
        self._body = body
        self._answered = False
        work = self._call(scope, self._receive, self._send)
        try:
            # It has nothing to wait for, so its first step is its last.
            work.send(None)
        except StopIteration:
            return
        except Exception as error:
            problem: Exception | None = error
        else:
            work.close()
            problem = None
        if not self._answered:
            self.transport.write(_FAILED)
        self.transport.close()
        self.logger.error("the application failed, or waited for something else", exc_info=problem)

    async def _receive(self) -> Any:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        headers = self._start["headers"]
        keep = not self.shared.default_headers and CLOSE not in headers and self.parser.should_keep_alive()
        content = [STATUS_LINE[self._start["status"]]]
        for name, value in headers if keep or CLOSE in headers else (*headers, CLOSE):
            content += (name, b": ", value, b"\r\n")
        content += (b"\r\n", message["body"])
        self.transport.write(b"".join(content))
        self._answered = True
        if not keep:
            self.transport.close()

    def _unanswered(self) -> bool:
        return self._parts is not None or super()._unanswered()
