"""A webhook that answers every review alike: our own server, without a decision.

    constant.py --port=N --metrics-port=N --cert-file=F --key-file=F

Its patch fits any object: it sets the labels. What calls cost beside this one is what is decided.
"""

import argparse
import base64
import json
import sys

import msgspec

from webhook.core.admission import Answer
from webhook.core.site import Site
from webhook.server import replica
from webhook.server.settings import Settings

LABELS = {"example.com/constant": "yes"}
UID, UID_LENGTH = b'"uid":"', 36


def response(uid: str) -> bytes:
    """What an API server takes for the answer to the review with this uid."""
    patch = json.dumps([{"op": "add", "path": "/metadata/labels", "value": LABELS}])
    response = {
        "uid": uid,
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(patch.encode()).decode(),
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()


BEFORE, _, AFTER = response("UID").partition(b"UID")


def decide(body: bytes, _site: Site) -> Answer:
    """The answer. Of the review only its uid is read, which API servers write first."""
    start = body.index(UID) + len(UID)
    return Answer(200, BEFORE + body[start : start + UID_LENGTH] + AFTER, "unchanged")


def main() -> int:
    parser = argparse.ArgumentParser()
    for flag in ("--port", "--metrics-port"):
        parser.add_argument(flag, type=int, required=True)
    for flag in ("--cert-file", "--key-file"):
        parser.add_argument(flag, required=True)
    given = vars(parser.parse_args())
    return replica.serve(msgspec.convert({"host": "127.0.0.1", **given}, Settings), decide)


if __name__ == "__main__":
    sys.exit(main())
