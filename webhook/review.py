"""AdmissionReview on the wire: decode a request, encode a response. Pure.

Only admission.k8s.io/v1. The object stays raw here: which view fits it is its kind's affair.
Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#webhook-request-and-response
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from webhook.patch import Op

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class GroupVersionKind(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    version: str = ""
    kind: str = ""


class Request(msgspec.Struct, frozen=True, gc=False):
    """What the API server asks. `namespace` is the truth; the object's own may be empty."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    operation: str = ""
    namespace: str | None = None
    name: str | None = None
    subResource: str | None = None
    dryRun: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")
    oldObject: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct, frozen=True, gc=False):
    apiVersion: str
    kind: str
    request: Request


class Status(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why an object is not admitted, as kubectl prints it."""

    code: int = 0
    reason: str = ""
    message: str = ""


class Response(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`patch` and `patchType` stand together or not at all; msgspec writes bytes as base64."""

    uid: str
    allowed: bool
    status: Status | None = None
    patchType: str = ""
    patch: bytes = b""
    warnings: Sequence[str] = ()
    auditAnnotations: dict[str, str] | None = None


class _Answer(msgspec.Struct, frozen=True, gc=False):
    response: Response
    apiVersion: str = API_VERSION
    kind: str = KIND


class BadReview(Exception):
    """The body is not an AdmissionReview that we understand: an HTTP 400, not a decision."""


_decoder = msgspec.json.Decoder(_Review)
_encoder = msgspec.json.Encoder()


def decode(body: bytes) -> Request:
    """The request in `body`; raises `BadReview`."""
    try:
        review = _decoder.decode(body)
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
    return _encoder.encode(_Answer(response))


def encode_patch(operations: Sequence[Op]) -> bytes:
    """RFC 6902 operations as JSON."""
    return _encoder.encode(operations)
