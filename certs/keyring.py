"""The keyring: the CAs that all replicas share, as stored in the CA Secret.

    ca.crt, ca.key               the CA that signs new leaves
    upcoming.crt, upcoming.key   its successor, also published in caBundle but not signing yet
    retired.crt                  predecessors that leaves may still chain to; certificates only, their keys are deleted
    keyring.json                 {"rotations": n, "distrust": bool, "retired": {<fingerprint>: <trusted until>}}

An empty Secret is an empty keyring. What cannot be read counts as absent: a Secret that somebody broke by
hand is then filled again instead of stopping all replicas. This file must not do I/O or decide anything.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from certs import pki
from certs.pki import KeyPair

# On the Secret: requests an early rotation. The value `distrust` also drops the old CA early.
ROTATE_ANNOTATION = "accel.io/rotate-ca"
# Our keys in the Secret; others are left alone.
KEYS = ("ca.crt", "ca.key", "upcoming.crt", "upcoming.key", "retired.crt", "keyring.json")


@dataclass(frozen=True, slots=True)
class Retired:
    """A CA that no longer signs, and until when verifiers trust it."""

    certificate: bytes
    until: datetime


@dataclass(frozen=True, slots=True)
class Keyring:
    """Which CA signs, which comes next, which are still trusted."""

    signing: KeyPair | None = None
    upcoming: KeyPair | None = None
    retired: tuple[Retired, ...] = ()
    rotations: int = 0
    distrust: bool = False
    """The signing CA's key is compromised: stop trusting it as soon as its leaves have been replaced."""
    wanted: str = ""
    """Value of the rotate annotation; empty without one."""

    def certificates(self) -> tuple[bytes, ...]:
        """Every trusted CA, newest first: a change of role does not change the bundle."""
        pairs = (self.signing, self.upcoming)
        found = {pair.certificate for pair in pairs if pair} | {old.certificate for old in self.retired}
        return tuple(sorted(found, key=lambda ca: (pki.not_before(ca), ca), reverse=True))

    def bundle(self) -> bytes:
        """The caBundle that every webhook entry must have, as PEM."""
        return b"".join(self.certificates())


def with_upcoming(keyring: Keyring, ca: KeyPair, adopted: tuple[bytes, ...], until: datetime) -> Keyring:
    """`ca` waits to sign; `adopted` are CAs found in use that the keyring did not know."""
    known = tuple(Retired(certificate, until) for certificate in adopted)
    distrust = keyring.distrust or keyring.wanted == "distrust"
    return replace(keyring, upcoming=ca, retired=keyring.retired + known, distrust=distrust, wanted="")


def promoted(keyring: Keyring, until: datetime) -> Keyring:
    """The upcoming CA signs; the previous one stays trusted until `until`, without its key.

    This also fulfils a rotation that was requested in the meantime.
    """
    before = (Retired(keyring.signing.certificate, until),) if keyring.signing else ()
    return Keyring(
        signing=keyring.upcoming,
        retired=keyring.retired + before,
        rotations=keyring.rotations + len(before),
    )


def without(keyring: Keyring, certificates: tuple[bytes, ...]) -> Keyring:
    """The keyring without these retired CAs."""
    return replace(keyring, retired=tuple(old for old in keyring.retired if old.certificate not in certificates))


def from_secret(data: Mapping[str, str], annotations: Mapping[str, str]) -> Keyring:
    """The keyring in a Secret's `data` (base64 values, as in the API)."""
    values = {key: _decoded(value) for key, value in data.items()}
    notes = _notes(values.get("keyring.json", b""))
    rotations = notes.get("rotations")
    return Keyring(
        signing=_pair(values, "ca"),
        upcoming=_pair(values, "upcoming"),
        retired=_retired(values.get("retired.crt", b""), notes.get("retired")),
        rotations=rotations if isinstance(rotations, int) else 0,
        distrust=notes.get("distrust") is True,
        wanted=annotations.get(ROTATE_ANNOTATION, ""),
    )


def to_secret(keyring: Keyring) -> dict[str, str]:
    """The Secret's `data`, complete. The rotate annotation is not part of it."""
    notes = {
        "rotations": keyring.rotations,
        "distrust": keyring.distrust,
        "retired": {pki.fingerprint(old.certificate): stamp(old.until) for old in keyring.retired},
    }
    values = {"keyring.json": json.dumps(notes, sort_keys=True).encode()}
    for name, pair in (("ca", keyring.signing), ("upcoming", keyring.upcoming)):
        if pair:
            values |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
    if keyring.retired:
        values["retired.crt"] = b"".join(old.certificate for old in keyring.retired)
    return {key: base64.b64encode(value).decode() for key, value in values.items()}


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC, whole seconds, as Kubernetes writes times."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _pair(values: Mapping[str, bytes], name: str) -> KeyPair | None:
    pair = KeyPair(values.get(f"{name}.crt", b""), values.get(f"{name}.key", b""))
    if not pki.is_ours(pair.certificate) or not pki.matches(pair):
        return None
    return pair


def _retired(bundle: bytes, until: object) -> tuple[Retired, ...]:
    moments = until if isinstance(until, dict) else {}
    try:
        certificates = pki.split(bundle)
    except ValueError:
        return ()
    return tuple(Retired(ca, _moment(moments.get(pki.fingerprint(ca)), ca)) for ca in certificates)


def _moment(value: object, certificate: bytes) -> datetime:
    """A timestamp, or if it is lost, the end of the certificate: trusting longer fails no call."""
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC)
    except ValueError:
        return pki.not_after(certificate)


def _notes(text: bytes) -> dict[str, object]:
    try:
        notes = json.loads(text)
    except ValueError:
        return {}
    return notes if isinstance(notes, dict) else {}


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""
