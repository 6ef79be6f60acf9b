"""Checks that the peers do the same work: for the same review, each one's patch results in the same object.

The patches themselves may differ, for example in the order of operations.
"""

import base64
import http.client
import json
import ssl
from typing import Any

import jsonpatch

from benchmarks import reviews
from benchmarks.servers import Server

SAME_WORK = ("jobset-pod", "plain-pod")
"""Reviews that all peers support; they were not written for the others."""

TIMEOUT_SECONDS = 30


class Different(Exception):
    """A peer does different work, so comparing its speed would be meaningless."""


def ask(server: Server, body: bytes) -> bytes:
    """The response to one review, on a new connection."""
    context = ssl.create_default_context(cafile=str(server.ca))
    connection = http.client.HTTPSConnection("localhost", server.port, timeout=TIMEOUT_SECONDS, context=context)
    try:
        connection.request("POST", server.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise Different(f"{server.name}: status {response.status}: {answer[:200]!r}")
    return answer


def patched(body: bytes, answer: bytes) -> dict[str, Any]:
    """The object under review with the response's patch applied."""
    response = json.loads(answer)["response"]
    if not response["allowed"] or response["uid"] != json.loads(body)["request"]["uid"]:
        raise Different(f"denied, or another uid: {response}")
    patch = json.loads(base64.b64decode(response.get("patch") or "W10="))
    found: dict[str, Any] = jsonpatch.apply_patch(reviews.object_of(body), patch)
    return found


def check(servers: list[Server]) -> dict[str, dict[str, int]]:
    """The length of each server's response to each review; raises Different unless all results equal the first one's.

    A null counts as an absent field, as it does for the API server. The floor is made for only one review.
    """
    lengths: dict[str, dict[str, int]] = {server.name: {} for server in servers}
    for name in SAME_WORK:
        body = reviews.load(name)
        want: Any = None
        for server in servers:
            answer = ask(server, body)
            lengths[server.name][name] = len(answer)
            if server.name == "jobset" or (server.name in ("floor", "read") and name != "jobset-pod"):
                continue
            found = without_nulls(patched(body, answer))
            want = want or found
            if found != want:
                raise Different(f"{server.name}, {name}: {difference(want, found)}")
    return lengths


def without_nulls(value: Any) -> Any:
    """JSON values without the fields that are null."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


def difference(want: Any, found: Any) -> str:
    """The patch that turns one into the other, truncated."""
    return json.dumps(jsonpatch.make_patch(want, found).patch)[:600]
