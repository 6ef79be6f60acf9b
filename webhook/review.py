"""AdmissionReview on the wire: decode a request, encode a response. Pure.

Only admission.k8s.io/v1. Which view fits the object is its kind's affair: it stays raw, or a reader for the kind that
a review begins with reads both in one go.
Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#webhook-request-and-response
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from webhook.operation import Operation
from webhook.views.admission import API_VERSION, KIND, AdmissionReview, Answered, Reader, Request, Response

OPENING: Final = 160
"""Bytes from the beginning of a review to the end of its `"kind":{`, at most."""


class BadReview(Exception):
    """The body is not an AdmissionReview that we understand: an HTTP 400, not a decision."""


_DECODER: Final = msgspec.json.Decoder(AdmissionReview[msgspec.Raw])
_ENCODER: Final = msgspec.json.Encoder()


def reader(view: type[Any]) -> Reader:
    """What reads a review whose object has this view."""
    return msgspec.json.Decoder(AdmissionReview[view])  # type: ignore[valid-type]


def opening(group: str, version: str, kind: str) -> bytes:
    """What an API server writes near the beginning of a review of this kind: Go's fields come in their order."""
    return f'"kind":{{"group":"{group}","version":"{version}","kind":"{kind}"}}'.encode()


def opened(body: bytes) -> bytes:
    """The same of a review whose kind is not known yet; anything else where it does not begin as they do."""
    start = body.find(b'"kind":{', 0, OPENING)
    return body[start : body.find(b"}", start) + 1] if start > 0 else b""


def read(body: bytes, by: Reader) -> Request[Any] | None:
    """The request with its object in one go; None where anything is amiss, which `decode` then says."""
    try:
        review = by.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    good = review.apiVersion == API_VERSION and review.kind == KIND and review.request.uid
    return review.request if good else None


def decode(body: bytes) -> Request[msgspec.Raw]:
    """The request in `body`; raises `BadReview`."""
    try:
        review = _DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadReview(f"not an {API_VERSION} {KIND}: {_short(error)}") from None
    if review.apiVersion != API_VERSION or review.kind != KIND:
        raise BadReview(f"not an {API_VERSION} {KIND}")
    if not review.request.uid:
        raise BadReview("request.uid is empty")
    return review.request


def plain(raw: msgspec.Raw) -> Any:
    """An object of a request as JSON values; raises `BadReview` for text that `decode` passes over."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadReview(f"not an {API_VERSION} {KIND}: {_short(error)}") from None


def _short(error: Exception) -> str:
    text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return "".join(c if c.isprintable() else "?" for c in text)[:160]


def encode(response: Response) -> bytes:
    """The body of an answer."""
    return _ENCODER.encode(Answered(response))


def encode_patch(operations: Sequence[Operation]) -> bytes:
    """RFC 6902 operations as JSON."""
    return _ENCODER.encode(operations)
