"""Bytes in, bytes out: one AdmissionReview request becomes one answer. Pure.

Two families of errors: the object is wrong (`Denied`, a decision), or the request is (`BadReview`, an HTTP 400).
Anything else is a bug of ours: HTTP 500, so that failurePolicy decides, and never an unintended patch.
"""

import traceback
from dataclasses import dataclass, replace
from typing import Any, Final, final

import msgspec

from webhook.core import limits, review, unread, update
from webhook.core.inject import Injection, inject, is_mirrored, tolerated
from webhook.core.kinds.kind import Context, Kind
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.messages import Denied, Warn
from webhook.core.patch import Section, render
from webhook.core.schema.admission import Request
from webhook.core.schema.operation import Operation
from webhook.core.site import Site
from webhook.core.template import controller_of
from webhook.errors import BadReview, TooDeep


@final
@dataclass(init=False)
class Answer:
    """What goes back to the API server, and what the caller counts and logs."""

    status: int  # HTTP: 200 for every decision; 400 not a review; 500 unexpected
    body: bytes  # JSON AdmissionReview on 200, else one line of text
    outcome: str  # "injected", "unchanged", "skipped", "denied", "bad-review", "error"
    code: str  # the reason, a key of the message tables; never user text: safe as a metric label
    kind: str  # a known kind, else "other"
    operation: str  # CREATE, UPDATE, other
    dry_run: bool
    uid: str
    namespace: str
    name: str  # or generateName with a "*"
    type: str  # canonical type, if one was resolved
    detail: str  # denial message, or a traceback when outcome is "error": for the log only

    def __init__(
        self,
        status: int,
        body: bytes,
        outcome: str,
        code: str = "",
        kind: str = "",
        operation: str = "",
        *,
        dry_run: bool = False,
        uid: str = "",
        namespace: str = "",
        name: str = "",
        type: str = "",
        detail: str = "",
    ) -> None:
        self.status = status
        self.body = body
        self.outcome = outcome
        self.code = code
        self.kind = kind
        self.operation = operation
        self.dry_run = dry_run
        self.uid = uid
        self.namespace = namespace
        self.name = name
        self.type = type
        self.detail = detail


def admit(body: bytes, site: Site) -> Answer:
    """The answer to one request. Never raises."""
    try:
        mentioned = mentions_us(body)
        request = (_created(body) if mentioned and len(body) <= limits.OBJECT else None) or review.decode(body)
    except TooDeep as deep:
        return _too_deep(body, deep)
    except BadReview as bad:
        return _bad(bad)
    try:
        return _decide(request, site, body, mentioned)
    except TooDeep as deep:
        return _too_deep(body, deep)
    except RecursionError:
        return _too_deep(body, TooDeep("nested too deeply"))
    except BadReview as bad:
        return _bad(bad)
    except Exception:
        return _answer(request, 500, b"accel-injector: internal error", "error", detail=traceback.format_exc())


def _too_deep(body: bytes, deep: TooDeep) -> Answer:
    """A decision all the same, if the request can be identified."""
    request = review.decode_head(body)
    if request is None:
        return _bad(deep)
    denied = limits.too_large("the object", "too many nested levels", "a few hundred")
    if request.operation == "UPDATE":
        return _allowed(request, "unchanged", tolerated(denied).warnings, code=denied.code)
    return _denied(request, denied)


def _bad(bad: BadReview) -> Answer:
    return Answer(400, str(bad).encode(), "bad-review", code="bad-review")


_READERS: Final = {
    review.opening(workload.group, version, workload.kind): review.reader(workload.view)
    for workload in WORKLOADS.values()
    for version in workload.versions
}


def _created(body: bytes) -> Request[Any] | None:
    """A new object of a known kind, decoded together with its review; None for everything else.

    It only saves decoding the object twice: `decode` and `_decide` handle what is None here.
    """
    reader = _READERS.get(review.opened(body))
    request = review.read(body, reader) if reader is not None else None
    if request is None or request.operation != "CREATE" or request.subResource:
        return None
    kind = request.kind
    workload = WORKLOADS.get((kind.group, kind.kind))
    return request if workload is not None and isinstance(request.object, workload.view) else None


def _decide(request: Request[Any], site: Site, body: bytes, mentioned: bool) -> Answer:
    """`mentioned`: our name is in the review, so perhaps in the object."""
    kind, obj = request.kind, request.object
    workload = WORKLOADS.get((kind.group, kind.kind))
    if workload is not None and isinstance(obj, workload.view):
        return _decide_object(request, workload, obj, site, body)
    raw = bytes(obj)
    if request.subResource or raw == b"null" or request.operation not in ("CREATE", "UPDATE"):
        return _allowed(request, "skipped", code="not-ours")
    if workload is None:
        unknown = Warn("unknown-kind", {"kind": request.kind.kind[:48]})
        return _allowed(request, "skipped", (unknown,), code="unknown-kind")
    if request.operation == "UPDATE" and not workload.reapply:
        return _allowed(request, "skipped", code="update")
    if not site.detect and not (mentioned and _concerns_us(request, raw)):
        return _allowed(request, "unchanged")
    try:
        obj = view(workload, raw)
    except Denied as denied:
        return _unseen(request, denied) if not mentions_us(raw) else _refused(request, workload, denied)
    return _decide_object(request, workload, obj, site, body)


def _unseen(request: Request[Any], denied: Denied) -> Answer:
    """An object without our annotations, sent only because of its resources: nothing was requested, so it passes."""
    skipped = Warn("not-detected", {"why": denied.message.splitlines()[0]})
    return _allowed(request, "unchanged", (skipped,), code=denied.code)


def _concerns_us(request: Request[Any], raw: bytes) -> bool:
    if mentions_us(raw):
        return True
    return request.operation == "UPDATE" and mentions_us(bytes(request.oldObject))


def _decide_object(request: Request[Any], workload: Kind[Any], obj: Any, site: Site, body: bytes) -> Answer:
    try:
        injection = _injection(request, workload, obj, site)
    except Denied as denied:
        return _refused(request, workload, denied)
    unread_warnings = _unread(request, obj, injection, body)
    if unread_warnings:
        injection = replace(injection, warnings=(*injection.warnings, *unread_warnings))
    return _patched(request, workload, obj, injection)


def _unread(request: Request[Any], obj: Any, injection: Injection, body: bytes) -> list[Warn]:
    """Warnings about keys of ours that injection did not read. A controlled object has them from its owner: none."""
    if request.operation != "CREATE" or injection.skipped or controller_of(obj.metadata) is not None:
        return []
    if not unread.has_more_than(injection.mentions, body):
        return []
    return unread.unread(review.plain(review.decode(body).object), obj)


def _refused(request: Request[Any], workload: Kind[Any], denied: Denied) -> Answer:
    if request.operation == "UPDATE" and workload.reapply == "immutable":  # a schemaless kind's fields
        return _allowed(request, "unchanged", tolerated(denied).warnings, code=denied.code)
    return _denied(request, denied)


def mentions_us(raw: bytes) -> bool:
    """Whether the object can have an `accel.io/` key at all: a cheap test that saves decoding it.

    JSON may escape any letter, so text with escaped ASCII letters is decoded; the slash, which has its own escape,
    is not part of the test.
    """
    return b"accel" in raw or b"\\u00" in raw


_DECODERS: Final = {key: msgspec.json.Decoder(workload.view) for key, workload in WORKLOADS.items()}


def view(workload: Kind[Any], raw: bytes) -> Any:
    """The typed view of an object; raises `Denied` if a field has a different type than in the kind's schema."""
    if len(raw) > limits.OBJECT:
        raise limits.too_large("the object", f"{len(raw):,} bytes", f"{limits.OBJECT:,}")
    try:
        return _DECODERS[workload.group, workload.kind].decode(raw)
    except msgspec.MsgspecError as error:
        raise limits.unreadable(raw, str(error)) from None


def _injection(request: Request[Any], workload: Kind[Any], obj: Any, site: Site) -> Injection:
    context = Context(request.namespace or "", site)
    if request.operation != "UPDATE" or is_mirrored(obj.metadata):
        return inject(workload, obj, context)
    old = review.plain(request.oldObject)
    if workload.reapply == "judged":
        return update.judge(workload, review.plain(request.object), old, context)
    if workload.reapply == "mutable":
        return update.follow_type(workload, review.plain(request.object), old, context)
    if workload.reapply == "restored":
        return update.restore(workload, review.plain(request.object), old, context)
    return update.keep_stored(workload, obj, review.plain(request.object), old, context)


PATCH: Final = (limits.ANSWER - 16 * 1024) // 4 * 3
"""Bytes of a patch: it is sent as base64, together with warnings and the rest."""

_TYPES: Final = 4096
"""Characters of the types in an audit annotation."""


def _patched(request: Request[Any], workload: Kind[Any], obj: Any, injection: Injection) -> Answer:
    operations = _operations(obj, injection) if workload.patched else []
    types = ",".join(injection.types)[:_TYPES]
    if not operations:
        outcome = "skipped" if injection.skipped else "unchanged"
        return _allowed(request, outcome, injection.warnings, code=injection.skipped, type_name=types)
    patch = review.encode_patch(operations, PATCH)
    if patch is None:
        size = f"more than {PATCH:,} bytes of changes"
        return _refused(request, workload, limits.too_large("the injection", size, f"{PATCH:,}"))
    body = review.patched(request.uid, patch, types, injection.warnings)
    return _answer(request, 200, body, "injected", type_name=types)


def _operations(obj: Any, injection: Injection) -> list[Operation]:
    """JSON Patch operations apply in order, so leftovers are removed first and the edits see an object without them."""
    if not injection.leftovers:
        return render(obj, injection.sections)
    leftovers = Section((), injection.leftovers)
    return [*render(obj, [leftovers]), *render(injection.base, injection.sections)]


def _allowed(
    request: Request[Any], outcome: str, warnings: tuple[Warn, ...] = (), *, code: str = "", type_name: str = ""
) -> Answer:
    return _answer(request, 200, review.allowed(request.uid, warnings), outcome, code=code, type_name=type_name)


def _denied(request: Request[Any], denied: Denied) -> Answer:
    body = review.denied(request.uid, denied)
    return _answer(request, 200, body, "denied", code=denied.code, detail=denied.message)


def _answer(
    request: Request[Any],
    status: int,
    body: bytes,
    outcome: str,
    *,
    code: str = "",
    type_name: str = "",
    detail: str = "",
) -> Answer:
    kind, operation = request.kind, request.operation
    workload = WORKLOADS.get((kind.group, kind.kind))
    return Answer(
        status=status,
        body=body,
        outcome=outcome,
        code=code,
        kind=workload.name if workload else "other",
        operation=operation if operation in ("CREATE", "UPDATE") else "other",
        dry_run=bool(request.dryRun),
        uid=request.uid,
        namespace=request.namespace or "",
        name=request.name or "",
        type=type_name,
        detail=detail,
    )
