"""The floor: our own server, with an answer that was made before it started.

    python -m benchmarks.peers.floor --review jobset-pod --port N --metrics-port N --cert-file F --key-file F

Everything is accel-injector's but the decision: the same sockets, HTTP, reading of the body, metrics and headers,
and an answer of the same length. What is left between this and `accel serve` is `admission.admit`.
"""

import argparse
import sys

import msgspec

from benchmarks import reviews
from webhook import config, review, server
from webhook.admission import Answer, admit
from webhook.settings import Settings
from webhook.site import Site

UID = b'"uid":"'
UID_LENGTH = 36


class Constant:
    """Answers every review as one review was answered, but for the uid, which an API server compares."""

    def __init__(self, body: bytes) -> None:
        self._answer = admit(body, Site.parse(b"", "defaults", config.builtin()))
        uid = review.decode(body).uid.encode()
        self._before, _, self._after = self._answer.body.partition(uid)

    def __call__(self, body: bytes, _site: Site) -> Answer:
        start = body.index(UID) + len(UID)
        text = self._before + body[start : start + UID_LENGTH] + self._after
        answer = self._answer
        return Answer(answer.status, text, answer.outcome, answer.code, answer.kind, answer.operation)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--review", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--metrics-port", type=int, required=True)
    parser.add_argument("--cert-file", required=True)
    parser.add_argument("--key-file", required=True)
    given = vars(parser.parse_args())
    body = reviews.load(given.pop("review"))
    return server.serve(msgspec.convert({"host": "127.0.0.1", **given}, Settings), Constant(body))


if __name__ == "__main__":
    sys.exit(main())
