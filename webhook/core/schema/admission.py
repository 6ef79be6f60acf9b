"""An admission.k8s.io/v1 AdmissionReview, as it comes and as it goes back. Typed views, nothing else.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#webhook-request-and-response
"""

from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from webhook.core import limits

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


Word = Annotated[str, Meta(max_length=limits.NAME)]
"""Text that the API server writes. `name` does not count: it is the object's own, and may be anything."""


class GroupVersionKind(msgspec.Struct, frozen=True, gc=False):
    group: Word = ""
    version: Word = ""
    kind: Word = ""


Obj = TypeVar("Obj")


class Request(msgspec.Struct, Generic[Obj], frozen=True, gc=False):
    """The API server's request. `namespace` is authoritative; the object's own may be empty."""

    uid: Word
    kind: GroupVersionKind = GroupVersionKind()
    subResource: Word | None = None
    name: str | None = None
    namespace: Word | None = None
    operation: Word = ""
    object: Obj = msgspec.Raw(b"null")  # type: ignore[assignment]  # as of a review that has none
    oldObject: msgspec.Raw = msgspec.Raw(b"null")
    dryRun: bool | None = None


class AdmissionReview(msgspec.Struct, Generic[Obj], frozen=True, gc=False):
    """A review with a request, as sent by the API server."""

    kind: str
    apiVersion: str
    request: Request[Obj]


Reader = msgspec.json.Decoder[AdmissionReview[Any]]
"""Decodes reviews of one kind, objects and all."""


class Status(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why an object is not admitted; printed by kubectl."""

    code: int = 0
    reason: str = ""
    message: str = ""


class Response(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`patch` and `patchType` occur together or not at all; msgspec encodes bytes as base64."""

    uid: str
    allowed: bool
    status: Status | None = None
    patchType: str = ""
    patch: bytes = b""
    warnings: Sequence[str] = ()
    auditAnnotations: dict[str, str] | None = None


class ReviewResponse(msgspec.Struct, frozen=True, gc=False):
    """An AdmissionReview with a response, as expected by the API server."""

    response: Response
    apiVersion: str = API_VERSION
    kind: str = KIND
