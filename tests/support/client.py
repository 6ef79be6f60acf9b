"""A small HTTPS client that can do what API servers do, and what they would never do."""

import http.client
import json
import socket
import ssl
import urllib.request
from functools import cache

from prometheus_client.parser import text_string_to_metric_families

from webhook.core.admission import Answer
from webhook.core.site import Site
from webhook.server.replica import Addresses
from webhook.server.settings import Settings

REVIEW = json.dumps(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "6f1c8a52-0000-4000-8000-000000000001", "operation": "CREATE", "object": {}},
    }
).encode()

LOCAL = Settings(host="127.0.0.1", port=0, metrics_port=0, self_signed=True, lame_duck=0, drain_timeout=5)
"""Settings of a replica in the test's own process."""

ANSWER = b'{"response":{"uid":"6f1c8a52-0000-4000-8000-000000000001","allowed":true}}'


def allow(_body: bytes, _site: Site) -> Answer:
    """Replaces `admit` in tests of the server alone: allows every review."""
    return Answer(200, ANSWER, "unchanged", kind="Pod", operation="CREATE")


@cache
def trust(ca: bytes, alpn: tuple[str, ...] = ()) -> ssl.SSLContext:
    """A context that trusts one CA."""
    context = ssl.create_default_context(cadata=ca.decode())
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def connect(at: Addresses, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    """An open TLS connection to the webhook."""
    plain = socket.create_connection(("127.0.0.1", at.port), timeout=30)
    return (context or trust(at.ca)).wrap_socket(plain, server_hostname="localhost")


def post(body: bytes = REVIEW, *headers: str, path: str = "/mutate?timeout=5s") -> bytes:
    """A whole POST request as bytes on the wire."""
    head = [f"POST {path} HTTP/1.1", "Host: webhook", "Content-Type: application/json", *headers]
    if not any(header.lower().startswith("transfer-encoding") for header in headers):
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """The next response on a connection: status, headers with lower-case names, body."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    body = response.read()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, body


def call(at: Addresses, request: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
    """The response to one request on a new connection."""
    with connect(at) as connection:
        connection.sendall(request or post())
        return answer(connection)


def probe(at: Addresses, path: str) -> tuple[int, str]:
    """The response of the plain-HTTP port: status and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{at.metrics_port}{path}", timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def rejected(at: Addresses) -> dict[str, float]:
    """accel_webhook_rejected_total by reason."""
    _, text = probe(at, "/metrics")
    families = text_string_to_metric_families(text)
    (family,) = [one for one in families if one.name == "accel_webhook_rejected"]
    return {sample.labels["reason"]: sample.value for sample in family.samples}


def closed(connection: socket.socket) -> bytes:
    """Everything that is received until the server closes the connection."""
    rest = b""
    try:
        while chunk := connection.recv(65536):
            rest += chunk
    except (ConnectionError, ssl.SSLError):
        pass
    return rest
