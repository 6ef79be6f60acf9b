"""AdmissionReview on the wire: decode a request, encode a response. Pure.

Only admission.k8s.io/v1. Which view fits the object is its kind's affair: it stays raw, or a reader for the kind that
a review begins with reads both in one go.
Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#webhook-request-and-response
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from webhook.core.schema.admission import API_VERSION, KIND, AdmissionReview, Reader, Request, Response, ReviewResponse
from webhook.core.schema.operation import Operation
from webhook.errors import BadReview, TooDeep, printable

OPENING: Final = 160
"""Bytes from the beginning of a review to the end of its `"kind":{`, at most."""


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
    except RecursionError:
        raise TooDeep(f"not an {API_VERSION} {KIND}: nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
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
    except RecursionError:
        raise TooDeep(f"not an {API_VERSION} {KIND}: nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadReview(f"not an {API_VERSION} {KIND}: {_short(error)}") from None


def _short(error: Exception) -> str:
    return printable(str(error)[:160])


def encode(response: Response) -> bytes:
    """The body of an answer."""
    return _ENCODER.encode(ReviewResponse(response))


def encode_patch(operations: Sequence[Operation], limit: int) -> bytes | None:
    """RFC 6902 operations as JSON; None where that is more than `limit` bytes.

    A few words can be copied into thousands of templates, so what is too much is not written out first.
    """
    parts, size = [], 0
    for start in range(0, len(operations), _AT_ONCE):
        part = _ENCODER.encode(operations[start : start + _AT_ONCE])
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"[" + b",".join([part[1:-1] for part in parts]) + b"]"


_AT_ONCE: Final = 64
"""Operations that are written before their size is looked at."""


_HEAD: Final = re.compile(rb',"(?:object|oldObject)":')


def decode_head(body: bytes) -> Request[msgspec.Raw] | None:
    """The request without its objects, where an API server wrote it: they come last. Else None."""
    start = _HEAD.search(body)
    try:
        return decode(body[: start.start()] + b"}}") if start else None
    except BadReview:
        return None
