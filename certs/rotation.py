"""What to do next about certificates: one pure decision over what a replica sees, and the clock's time.

Several replicas decide at once, each by its own clock, and share nothing but the CA Secret and the webhook
configuration. A rotation goes in steps, and each holds whoever does it and whoever dies in between:

    NewAuthority    a successor is written to the Secret (its resourceVersion settles a race)
    PublishBundle   every webhook entry trusts old and new
    Promote         once a replica has *itself* seen the new one in every entry for the whole overlap, the
                    Secret says that it signs, and the old key is thrown away
    IssueLeaf       every replica that sees this takes a leaf from the new one
    DropOld         much later, when no leaf can hang on it any more, the old one leaves the bundle

The overlap is measured by the replica that promotes, between two readings of its own clock. No stamp of
another machine is compared with it, so clocks that disagree can neither shorten nor stop a rotation.

This file must not do I/O: no clock, no files, no network, no logging.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from certs import authority, keyring
from certs.authority import BACKDATE, KeyPair
from certs.keyring import Keyring


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things live. ValueError where an authority would end before its last leaf."""

    names: tuple[str, ...]
    """The names of every leaf."""
    leaf_lifetime: timedelta = authority.LEAF_LIFETIME
    ca_lifetime: timedelta = authority.CA_LIFETIME
    overlap: timedelta = timedelta(minutes=2)
    """How long old and new stand side by side in every entry before the new one signs. An API server
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
        """How long a retired authority stays trusted: five leaf lifetimes, so 35 days by default.

        One would do while all replicas see the Secret. A replica that is cut off from the API server renews
        its leaf from the authority it knows, and after a month of that it must still be trusted.
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
    """Since when this replica has seen this keyring in every entry; None where it is not so."""


@dataclass(frozen=True, slots=True)
class NewAuthority:
    """Make an authority and write it to the Secret as the upcoming one."""

    adopted: tuple[bytes, ...] = field(default=(), repr=False)
    """Authorities of ours that entries trust but the Secret has lost: leaves in use hang on them."""


@dataclass(frozen=True, slots=True)
class PublishBundle:
    """Write this bundle to every entry."""

    bundle: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class IssueLeaf:
    """Take a new leaf from this authority."""

    issuer: KeyPair


@dataclass(frozen=True, slots=True)
class Promote:
    """Write to the Secret that the upcoming authority signs."""


@dataclass(frozen=True, slots=True)
class DropOld:
    """Write the Secret without these retired authorities."""

    certificates: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keep:
    """All is well until then, unless somebody changes something."""

    until: datetime


Action = NewAuthority | PublishBundle | IssueLeaf | Promote | DropOld | Keep


def decide(view: View, now: datetime, policy: Policy) -> Action:
    """The next step of the replica that has this view. Doing it and asking again ends in `Keep`."""
    issuer = signer(view.keyring, now)
    if issuer is None:
        return NewAuthority(_lost(view, now))
    # Before any step that needs the network: a leaf can be had without it.
    if not _serves(view, issuer, now, policy):
        return IssueLeaf(issuer)
    bundle = view.keyring.bundle()
    if any(found != bundle for found in view.entries.values()):
        return PublishBundle(bundle)
    if view.keyring.upcoming is None and (view.keyring.wanted or now >= due(issuer.certificate)):
        return NewAuthority()
    if view.settled is None or now < view.settled + policy.overlap:
        return Keep(_next(view, issuer, now, policy))
    if view.keyring.upcoming is not None:
        return Promote()
    gone = _droppable(view.keyring, now)
    return DropOld(gone) if gone else Keep(_next(view, issuer, now, policy))


def changed(before: Keyring, action: NewAuthority | Promote | DropOld, now: datetime, policy: Policy) -> Keyring:
    """The keyring after an action that writes the Secret."""
    match action:
        case NewAuthority(adopted):
            ca = authority.new_ca(now, policy.ca_lifetime)
            return keyring.with_upcoming(before, ca, adopted, now + policy.retention)
        case Promote():
            # A distrusted authority goes after one more overlap, in which replicas take new leaves.
            return keyring.promoted(before, now if before.distrust else now + policy.retention)
        case DropOld(certificates):
            return keyring.without(before, certificates)


def settled(before: View | None, after: View, now: datetime) -> datetime | None:
    """Since when `after`'s keyring has been in every entry, given what was seen before."""
    if not published(after):
        return None
    if before is None or before.settled is None or before.keyring != after.keyring:
        return now
    return min(before.settled, now)  # a clock that was set back must not wait for its old time


def published(view: View) -> bool:
    """Whether the configuration has entries and every one trusts the whole keyring."""
    bundle = view.keyring.bundle()
    return bool(view.entries) and all(found == bundle for found in view.entries.values())


def signer(ring: Keyring, now: datetime) -> KeyPair | None:
    """The authority that new leaves come from.

    The upcoming one only where nothing else can sign: at the very first start, or after everything was lost.
    An authority whose time has not come yet counts as good: the clock at fault is then our own.
    """
    for pair in (ring.signing, ring.upcoming):
        if pair and now < authority.not_after(pair.certificate):
            return pair
    return None


def due(certificate: bytes) -> datetime:
    """When a certificate is renewed: two thirds of the way from its issue to its end."""
    issued = authority.not_before(certificate) + BACKDATE
    return issued + (authority.not_after(certificate) - issued) * 2 / 3


def _serves(view: View, issuer: KeyPair, now: datetime, policy: Policy) -> bool:
    """Whether the replica may go on with the leaf it has."""
    if view.leaf is None:
        return False
    leaf = view.leaf.certificate
    if authority.names_of(leaf) != frozenset(policy.names) or now >= due(leaf):
        return False
    if authority.issued_by(leaf, issuer.certificate):
        return True
    # The Secret was lost and nothing signs yet: the old leaf is the one that verifiers know already.
    adopted = (old.certificate for old in view.keyring.retired)
    return view.keyring.signing is None and any(authority.issued_by(leaf, ca) for ca in adopted)


def _lost(view: View, now: datetime) -> tuple[bytes, ...]:
    """Authorities of ours in the entries that the keyring does not know; only what can still verify."""
    found: dict[bytes, None] = {}
    for bundle in view.entries.values():
        try:
            found |= dict.fromkeys(authority.split(bundle))
        except ValueError:
            continue  # whatever somebody wrote there, no leaf of ours hangs on it
    known = view.keyring.certificates()
    return tuple(ca for ca in found if ca not in known and authority.is_ours(ca) and now < authority.not_after(ca))


def _droppable(ring: Keyring, now: datetime) -> tuple[bytes, ...]:
    ends = ((old.certificate, min(old.until, authority.not_after(old.certificate))) for old in ring.retired)
    return tuple(certificate for certificate, end in ends if now >= end)


def _next(view: View, issuer: KeyPair, now: datetime, policy: Policy) -> datetime:
    """The earliest moment at which `decide` may answer otherwise on the same view."""
    moments = [due(issuer.certificate), authority.not_after(issuer.certificate)]
    if view.leaf:
        moments.append(due(view.leaf.certificate))
    if view.settled:
        moments.append(view.settled + policy.overlap)
    moments += [min(old.until, authority.not_after(old.certificate)) for old in view.keyring.retired]
    return min((moment for moment in moments if moment > now), default=now + policy.overlap)
