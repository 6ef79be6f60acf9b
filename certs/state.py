"""The state of `accel certs run`, in `state.json`: `serve` reads from it whether a replica is ready.

    ready             true: every entry of the webhook configuration trusts the CA of our leaf
    problem           why not, or the last error; empty when all is well
    entries           for each entry of the configuration: does it trust our leaf's CA
    bundle            SHA-256 of each CA that entries should trust, newest first
    leafAuthority     SHA-256 of the CA that signed our leaf
    leafNotAfter      RFC 3339; when the leaf expires
    authorityNotAfter RFC 3339; when the signing CA expires
    rotating          true from the creation of a new CA until it signs
    rotations         how often a CA has replaced another, by all replicas together

It has no timestamp: the file changes only when something has changed. Pure; must not read a clock.
"""

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime

from certs import pki, rotation
from certs.keyring import stamp
from certs.rotation import View


@dataclass(frozen=True, slots=True)
class State:
    """The content of `state.json`; the fields are its keys."""

    ready: bool = False
    problem: str = "the cluster has not been read yet"
    entries: dict[str, bool] = field(default_factory=dict)
    bundle: tuple[str, ...] = ()
    leafAuthority: str = ""
    leafNotAfter: str = ""
    authorityNotAfter: str = ""
    rotating: bool = False
    rotations: int = 0


def describe(view: View, now: datetime, problem: str = "") -> State:
    """The state of a replica that has this view; `problem` is what went wrong after it."""
    entries = {name: _trusts(view, bundle) for name, bundle in view.entries.items()}
    signer = rotation.signer(view.keyring, now)
    return State(
        ready=bool(entries) and all(entries.values()),
        problem=problem or _lacking(entries),
        entries=entries,
        bundle=tuple(pki.fingerprint(ca) for ca in view.keyring.certificates()),
        leafAuthority=_leaf_issuer(view),
        leafNotAfter=stamp(pki.not_after(view.leaf.certificate)) if view.leaf else "",
        authorityNotAfter=stamp(pki.not_after(signer.certificate)) if signer else "",
        rotating=view.keyring.upcoming is not None,
        rotations=view.keyring.rotations,
    )


def to_json(state: State) -> bytes:
    """The file's content."""
    return json.dumps(asdict(state), indent=1).encode() + b"\n"


def _trusts(view: View, bundle: bytes) -> bool:
    try:
        return view.leaf is not None and any(pki.issued_by(view.leaf.certificate, ca) for ca in pki.split(bundle))
    except ValueError:
        return False


def _leaf_issuer(view: View) -> str:
    if view.leaf is None:
        return ""
    signers = (ca for ca in view.keyring.certificates() if pki.issued_by(view.leaf.certificate, ca))
    return next((pki.fingerprint(ca) for ca in signers), "")


def _lacking(entries: dict[str, bool]) -> str:
    if not entries:
        return "the webhook configuration is missing, or has no entries"
    missing = [name for name, trusted in entries.items() if not trusted]
    return f"caBundle of {', '.join(missing)} does not contain the CA of our certificate" if missing else ""
