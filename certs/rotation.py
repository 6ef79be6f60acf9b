"""What to do next about certificates: one pure decision from what a replica sees, and the current time.

Several replicas decide at once, each by its own clock, and share nothing but the CA Secret and the webhook
configuration. A rotation proceeds in steps; each is safe whichever replica takes it, and whichever dies in between:

    NewCA    a successor is written to the Secret (its resourceVersion resolves a race)
    PublishBundle   every webhook entry trusts old and new
    Promote         once a replica has *itself* seen the new one in every entry for the whole overlap, the
                    Secret makes it the signing one, and the old key is deleted
    IssueLeaf       every replica that sees this issues itself a leaf from the new one
    DropOld         much later, when no leaf can chain to the old one any more, it leaves the bundle

The overlap is measured by the replica that promotes, between two readings of its own clock. It is not compared
with another machine's timestamp, so clock skew can neither shorten nor stop a rotation.

This file must not do I/O: no clock, no files, no network, no logging.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from certs import keyring, pki
from certs.keyring import Keyring
from certs.pki import BACKDATE, KeyPair


@dataclass(frozen=True, slots=True)
class Policy:
    """Lifetimes. ValueError if a CA would expire before its last leaf."""

    names: tuple[str, ...]
    """The names of every leaf."""
    leaf_lifetime: timedelta = pki.LEAF_LIFETIME
    ca_lifetime: timedelta = pki.CA_LIFETIME
    overlap: timedelta = timedelta(minutes=2)
    """How long old and new are both in every entry before the new one signs. An API server
    learns of a changed configuration by its watch, within seconds; two minutes are ample."""

    def __post_init__(self) -> None:
        if min(self.leaf_lifetime, self.ca_lifetime, self.overlap) <= timedelta(0):
            raise ValueError("leaf lifetime, CA lifetime and overlap must be longer than zero")
        if self.leaf_lifetime + self.overlap > self.ca_lifetime / 3:
            raise ValueError(
                f"leaf lifetime ({self.leaf_lifetime}) and overlap ({self.overlap}) together must not exceed "
                f"a third of the CA lifetime ({self.ca_lifetime}): that is what a CA has left when it rotates"
            )

    @property
    def retention(self) -> timedelta:
        """How long a retired CA stays trusted: five leaf lifetimes, so 35 days by default.

        One would be enough while all replicas see the Secret. A replica that is cut off from the API server renews
        its leaf from the CA it knows, and must still be trusted after a month of that.
        """
        return 5 * self.leaf_lifetime


@dataclass(frozen=True, slots=True)
class View:
    """What one replica sees."""

    keyring: Keyring
    entries: Mapping[str, bytes]
    """Each webhook entry's caBundle (PEM, empty where it has none) by the entry's name."""
    leaf: KeyPair | None = None
    """The leaf this replica serves; its key is known to match."""
    settled: datetime | None = None
    """Since when this replica has seen this keyring in every entry; None if it does not."""


@dataclass(frozen=True, slots=True)
class NewCA:
    """Create a CA and write it to the Secret as the upcoming one."""

    adopted: tuple[bytes, ...] = field(default=(), repr=False)
    """Our own CAs that entries trust but the Secret has lost: leaves in use chain to them."""


@dataclass(frozen=True, slots=True)
class PublishBundle:
    """Write this bundle to every entry."""

    bundle: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class IssueLeaf:
    """Issue a new leaf from this CA."""

    issuer: KeyPair


@dataclass(frozen=True, slots=True)
class Promote:
    """Write to the Secret that the upcoming CA signs."""


@dataclass(frozen=True, slots=True)
class DropOld:
    """Write the Secret without these retired CAs."""

    certificates: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to do until then, unless something changes."""

    until: datetime


Action = NewCA | PublishBundle | IssueLeaf | Promote | DropOld | Keep


def decide(view: View, now: datetime, policy: Policy) -> Action:
    """The next step of the replica that has this view. Taking it and deciding again ends in `Keep`."""
    issuer = signer(view.keyring, now)
    if issuer is None:
        return NewCA(_lost(view, now))
    # Before any step that needs the network: a leaf can be issued without it.
    if not _serves(view, issuer, now, policy):
        return IssueLeaf(issuer)
    bundle = view.keyring.bundle()
    if any(found != bundle for found in view.entries.values()):
        return PublishBundle(bundle)
    if view.keyring.upcoming is None and (view.keyring.wanted or now >= due(issuer.certificate)):
        return NewCA()
    if view.settled is None or now < view.settled + policy.overlap:
        return Keep(_next(view, issuer, now, policy))
    if view.keyring.upcoming is not None:
        return Promote()
    gone = _droppable(view.keyring, now)
    return DropOld(gone) if gone else Keep(_next(view, issuer, now, policy))


def changed(before: Keyring, action: NewCA | Promote | DropOld, now: datetime, policy: Policy) -> Keyring:
    """The keyring after an action that writes the Secret."""
    match action:
        case NewCA(adopted):
            ca = pki.new_ca(now, policy.ca_lifetime)
            return keyring.with_upcoming(before, ca, adopted, now + policy.retention)
        case Promote():
            # A distrusted CA is dropped after one more overlap, in which replicas get new leaves.
            return keyring.promoted(before, now if before.distrust else now + policy.retention)
        case DropOld(certificates):
            return keyring.without(before, certificates)


def settled(before: View | None, after: View, now: datetime) -> datetime | None:
    """Since when `after`'s keyring has been in every entry, given what was seen before."""
    if not published(after):
        return None
    if before is None or before.settled is None or before.keyring != after.keyring:
        return now
    return min(before.settled, now)  # if the clock was set back, do not wait for its old time


def published(view: View) -> bool:
    """Whether the configuration has entries and every one trusts the whole keyring."""
    bundle = view.keyring.bundle()
    return bool(view.entries) and all(found == bundle for found in view.entries.values())


def signer(ring: Keyring, now: datetime) -> KeyPair | None:
    """The CA that signs new leaves.

    The upcoming one only if nothing else can sign: at the very first start, or after everything was lost.
    A CA that is not yet valid counts as good: then our own clock is wrong.
    """
    for pair in (ring.signing, ring.upcoming):
        if pair and now < pki.not_after(pair.certificate):
            return pair
    return None


def due(certificate: bytes) -> datetime:
    """When a certificate is renewed: after two thirds of its lifetime."""
    issued = pki.not_before(certificate) + BACKDATE
    return issued + (pki.not_after(certificate) - issued) * 2 / 3


def _serves(view: View, issuer: KeyPair, now: datetime, policy: Policy) -> bool:
    """Whether the replica may keep the leaf it has."""
    if view.leaf is None:
        return False
    leaf = view.leaf.certificate
    if pki.names_of(leaf) != frozenset(policy.names) or now >= due(leaf):
        return False
    if pki.issued_by(leaf, issuer.certificate):
        return True
    # The Secret was lost and nothing signs yet: verifiers already trust the old leaf.
    adopted = (old.certificate for old in view.keyring.retired)
    return view.keyring.signing is None and any(pki.issued_by(leaf, ca) for ca in adopted)


def _lost(view: View, now: datetime) -> tuple[bytes, ...]:
    """Our own CAs in the entries that the keyring does not know, unless expired."""
    found: dict[bytes, None] = {}
    for bundle in view.entries.values():
        try:
            found |= dict.fromkeys(pki.split(bundle))
        except ValueError:
            continue  # whatever somebody wrote there, none of our leaves chains to it
    known = view.keyring.certificates()
    return tuple(ca for ca in found if ca not in known and pki.is_ours(ca) and now < pki.not_after(ca))


def _droppable(ring: Keyring, now: datetime) -> tuple[bytes, ...]:
    ends = ((old.certificate, min(old.until, pki.not_after(old.certificate))) for old in ring.retired)
    return tuple(certificate for certificate, end in ends if now >= end)


def _next(view: View, issuer: KeyPair, now: datetime, policy: Policy) -> datetime:
    """The earliest time at which `decide` may decide differently for the same view."""
    moments = [due(issuer.certificate), pki.not_after(issuer.certificate)]
    if view.leaf:
        moments.append(due(view.leaf.certificate))
    if view.settled:
        moments.append(view.settled + policy.overlap)
    moments += [min(old.until, pki.not_after(old.certificate)) for old in view.keyring.retired]
    return min((moment for moment in moments if moment > now), default=now + policy.overlap)
