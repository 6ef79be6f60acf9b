"""Plain requests to an API server: sent as the test wrote them, answered with status and warnings.

Client libraries hide both the Warning headers and unknown fields, which are part of what the tests look at.
"""

import http.client
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

TIMEOUT_SECONDS = 40  # the API server gives up on a request after 60 s, on a webhook after 30 s at most
WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 9110 removed the header; RFC 7234 section 5.5 has the form


@dataclass(frozen=True)
class Answer:
    """What the API server said: HTTP status, body (decoded where it is JSON), texts of its warnings."""

    status: int
    body: Any
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Api:
    """One user's way to one API server on loopback."""

    def __init__(self, port: int, tls: ssl.SSLContext, headers: Mapping[str, str]) -> None:
        self._port = port
        self._tls = tls
        self._headers = dict(headers)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        *,
        content: str = "",
    ) -> Answer:
        """Send one request. `body`: bytes or text as they are, else as JSON; `content`: its media type.

        Raises OSError where nothing answers.
        """
        payload = body if isinstance(body, bytes | str | None) else json.dumps(body)
        target = f"{path}?{urlencode(query)}" if query else path
        headers = {
            **self._headers,
            "Accept": "application/json, */*",
            "Content-Type": content or media_type(method),
        }
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=TIMEOUT_SECONDS, context=self._tls)
        try:
            connection.request(method, target, payload, headers)
            response = connection.getresponse()
            text = response.read()
            warnings = tuple(
                unquote(w) for line in response.headers.get_all("Warning", ()) for w in WARNING.findall(line)
            )
            is_json = response.headers.get_content_type() == "application/json"
            return Answer(response.status, json.loads(text) if is_json else text.decode(), warnings)
        finally:
            connection.close()


def media_type(method: str) -> str:
    """A PATCH body means something by its media type alone; a merge patch is what tests mostly send."""
    return "application/merge-patch+json" if method == "PATCH" else "application/json"


def unquote(text: str) -> str:
    """The warning's text: an API server sends UTF-8, and http.client takes every header for Latin-1."""
    text = text.encode("latin-1").decode()
    return re.sub(r"\\(.)", r"\1", text)
