"""bytes in, bytes out: one AdmissionReview request becomes one answer. Pure; the only place that knows both worlds."""

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """What goes back to the API server, and what the caller counts and logs of it."""

    status: int  # HTTP: 200 for every decision; 400 not a review; 500 unexpected
    body: bytes  # JSON AdmissionReview on 200, else one line of text
    outcome: str  # "injected", "unchanged", "skipped", "denied", "bad-review", "error"
    code: str = ""  # why, a key of the messages' tables; never user text: safe as a metric label
    kind: str = ""  # one of the kinds that we know, else "other"
    operation: str = ""  # CREATE, UPDATE, other
    dry_run: bool = False
    uid: str = ""
    namespace: str = ""
    name: str = ""  # or generateName with a "*"
    type: str = ""  # canonical type, where one was resolved
    detail: str = ""  # denial message, or a traceback when outcome is "error": for the log only
