"""The certificates there are, as rows for people: what it is, its subject, until when, and what is wrong.

Bytes in, rows out, time is a parameter; must not read a clock, files or the network.
"""

from dataclasses import asdict, dataclass
from datetime import datetime

from cryptography.x509.oid import NameOID

from certs import pki
from certs.keyring import Keyring, stamp
from certs.rotation import View


@dataclass(frozen=True, slots=True)
class Row:
    """One certificate, or one entry that trusts some."""

    what: str
    subject: str
    """The common name of a CA, the names of a leaf, the name of an entry."""
    until: str = ""
    """RFC 3339; empty for what does not expire."""
    note: str = ""
    good: bool = True


def of_leaf(certificate: bytes, bundle: bytes | None, now: datetime) -> list[Row]:
    """A serving certificate, and whether a verifier that trusts `bundle` accepts it (None: unknown)."""
    try:
        until, names = pki.not_after(certificate), sorted(pki.names_of(certificate))
    except ValueError:
        return [Row("leaf", "", note="cannot be read as a certificate", good=False)]
    issuer = _issuer(certificate)
    trusted = bundle is None or pki.valid_at(certificate, bundle, names, now)
    note = f"by {issuer}" if trusted or now >= until else f"by {issuer}, not trusted by the bundle"
    return [_dated("leaf", ", ".join(names), until, note, now, trusted)]


def of_bundle(bundle: bytes, now: datetime) -> list[Row]:
    """The CAs of a bundle."""
    try:
        found = pki.split(bundle)
    except ValueError:
        return [Row("CA", "", note="the bundle cannot be read", good=False)]
    return [_dated("CA", pki.name_of(ca), pki.not_after(ca), "", now, True) for ca in found]


def of_keyring(ring: Keyring, now: datetime) -> list[Row]:
    """What the CA Secret contains."""
    rows = [
        _dated(role, pki.name_of(pair.certificate), pki.not_after(pair.certificate), note, now, True)
        for role, pair, note in (
            ("signing", ring.signing, ""),
            ("upcoming", ring.upcoming, "published next to the signing one, signs after the overlap"),
        )
        if pair
    ]
    rows += [
        _dated(
            "retired",
            pki.name_of(old.certificate),
            pki.not_after(old.certificate),
            f"trusted until {stamp(old.until)}",
            now,
            True,
        )
        for old in ring.retired
    ]
    if not rows:
        return [Row("signing", "", note="the Secret is empty: no `accel certs run` has filled it yet", good=False)]
    return rows


def of_entries(view: View) -> list[Row]:
    """Whether each webhook entry trusts the whole keyring."""
    if not view.entries:
        return [Row("entry", "", note="the webhook configuration is missing, or has no entries", good=False)]
    bundle = view.keyring.bundle()
    return [
        Row("entry", name, note="trusts all of them" if found == bundle else _difference(found), good=found == bundle)
        for name, found in view.entries.items()
    ]


def as_object(row: Row) -> dict[str, object]:
    """The row for JSON."""
    return asdict(row)


def _dated(what: str, subject: str, until: datetime, note: str, now: datetime, good: bool) -> Row:
    if now >= until:
        return Row(what, subject, stamp(until), "; ".join(filter(None, ("expired", note))), good=False)
    return Row(what, subject, stamp(until), note, good)


def _issuer(certificate: bytes) -> str:
    issuer = pki.parse(certificate).issuer
    names = issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else issuer.rfc4514_string()


def _difference(found: bytes) -> str:
    return "has a different caBundle" if found else "has no caBundle"
