"""AdmissionReview on the wire: decode a request, encode a response. Pure.

Only admission.k8s.io/v1. Which view fits the object depends on its kind: it stays raw, or a reader for the kind that
a review begins with decodes both at once.
Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#webhook-request-and-response
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from webhook.core import limits
from webhook.core.messages import Denied, Warn
from webhook.core.schema.admission import (
    API_VERSION,
    KIND,
    AdmissionReview,
    Reader,
    Request,
    Response,
    ReviewResponse,
    Status,
)
from webhook.core.schema.operation import Operation
from webhook.errors import BadReview, TooDeep, printable

OPENING: Final = 160
"""Maximum number of bytes from the beginning of a review to the end of its `"kind":{`."""


_DECODER: Final = msgspec.json.Decoder(AdmissionReview[msgspec.Raw])
_ENCODER: Final = msgspec.json.Encoder()


def reader(view: type[Any]) -> Reader:
    """A decoder of reviews whose object has this view."""
    return msgspec.json.Decoder(AdmissionReview[view])  # type: ignore[valid-type]


def opening(group: str, version: str, kind: str) -> bytes:
    """What an API server writes near the beginning of a review of this kind: Go writes fields in a fixed order."""
    return f'"kind":{{"group":"{group}","version":"{version}","kind":"{kind}"}}'.encode()


def opened(body: bytes) -> bytes:
    """The same part of a review whose kind is not known yet; something arbitrary if it does not begin that way."""
    start = body.find(b'"kind":{', 0, OPENING)
    return body[start : body.find(b"}", start) + 1] if start > 0 else b""


def read(body: bytes, by: Reader) -> Request[Any] | None:
    """The request together with its object; None if anything is wrong, which `decode` then reports."""
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
    """An object of a request as JSON values; raises `BadReview` for text that `decode` does not check."""
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        raise TooDeep(f"not an {API_VERSION} {KIND}: nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadReview(f"not an {API_VERSION} {KIND}: {_short(error)}") from None


def _short(error: Exception) -> str:
    return printable(str(error)[:160])


def allowed(uid: str, warnings: Iterable[Warn]) -> bytes:
    """The body of a response that changes nothing."""
    return encode(Response(uid=uid, allowed=True, warnings=_texts(warnings)))


def patched(uid: str, patch: bytes, types: str, warnings: Iterable[Warn]) -> bytes:
    """The body of a response with a patch, and the `types` that were injected."""
    response = Response(
        uid=uid,
        allowed=True,
        patchType="JSONPatch",
        patch=patch,
        warnings=_texts(warnings),
        auditAnnotations={"type": types, "outcome": "injected"},
    )
    return encode(response)


def denied(uid: str, why: Denied) -> bytes:
    """The body of a denial."""
    status = Status(403 if why.reason == "Forbidden" else 422, why.reason, why.message)
    return encode(Response(uid=uid, allowed=False, status=status))


def _texts(warnings: Iterable[Warn]) -> tuple[str, ...]:
    """The first few, each once."""
    texts: dict[str, None] = {}
    for warning in warnings:
        texts[warning.text()] = None
        if len(texts) == limits.WARNINGS:
            break
    return tuple(texts)


def encode(response: Response) -> bytes:
    """The body of a response."""
    return _ENCODER.encode(ReviewResponse(response))


def encode_patch(operations: Sequence[Operation], limit: int) -> bytes | None:
    """RFC 6902 operations as JSON; None if that exceeds `limit` bytes.

    A short annotation can be copied into thousands of templates, so encoding stops once it is too much.
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
"""Operations that are encoded before the size is checked."""


_HEAD: Final = re.compile(rb',"(?:object|oldObject)":')


def decode_head(body: bytes) -> Request[msgspec.Raw] | None:
    """The request without its objects, if an API server wrote it: they come last. Else None."""
    start = _HEAD.search(body)
    try:
        return decode(body[: start.start()] + b"}}") if start else None
    except BadReview:
        return None
