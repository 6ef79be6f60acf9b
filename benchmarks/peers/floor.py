"""The floor: our own server with a constant response.

    python -m benchmarks.peers.floor --review jobset-pod --port N --metrics-port N --cert-file F --key-file F [--read]

Everything but the decision is accel-injector's: the same sockets, HTTP, reading of the body, metrics and headers, and
a response of the same length. The difference to `accel serve` is `admission.admit`.

With --read it decodes each review as `admit` does and encodes each response, but with a ready-made patch. The
difference to `accel serve` is then the decision alone: however fast that is, `accel serve` cannot be faster than this.
"""

import argparse
import sys

import msgspec

from benchmarks import reviews
from webhook import load
from webhook.core import review
from webhook.core.admission import PATCH, Answer, _created, admit
from webhook.core.schema.admission import Response, ReviewResponse
from webhook.core.schema.operation import Operation
from webhook.core.site import Site
from webhook.server import replica
from webhook.server.settings import Settings

UID = b'"uid":"'
UID_LENGTH = 36


class Constant:
    """Gives every review the response to one review, but for the uid, which an API server compares."""

    def __init__(self, body: bytes) -> None:
        self._answer = admit(body, Site.parse(b"", "defaults", load.builtin()))
        uid = review.decode(body).uid.encode()
        self._before, _, self._after = self._answer.body.partition(uid)

    def __call__(self, body: bytes, _site: Site) -> Answer:
        start = body.index(UID) + len(UID)
        text = self._before + body[start : start + UID_LENGTH] + self._after
        answer = self._answer
        return Answer(answer.status, text, answer.outcome, answer.code, answer.kind, answer.operation)


class Undecided(Constant):
    """Decodes every review and encodes the same patch each time."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        response = msgspec.json.decode(self._answer.body, type=ReviewResponse).response
        self._operations = msgspec.json.decode(response.patch, type=list[Operation])
        self._audit = response.auditAnnotations

    def __call__(self, body: bytes, _site: Site) -> Answer:
        request = _created(body) or review.decode(body)
        response = Response(
            uid=request.uid,
            allowed=True,
            patchType="JSONPatch",
            patch=review.encode_patch(self._operations, PATCH) or b"",
            auditAnnotations=self._audit,
        )
        answer = self._answer
        return Answer(
            answer.status, review.encode(response), answer.outcome, answer.code, answer.kind, answer.operation
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--review", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--metrics-port", type=int, required=True)
    parser.add_argument("--cert-file", required=True)
    parser.add_argument("--key-file", required=True)
    parser.add_argument("--read", action="store_true")
    given = vars(parser.parse_args())
    body = reviews.load(given.pop("review"))
    decide = Undecided(body) if given.pop("read") else Constant(body)
    return replica.serve(msgspec.convert({"host": "127.0.0.1", **given}, Settings), decide)


if __name__ == "__main__":
    sys.exit(main())
