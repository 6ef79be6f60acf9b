"""When certificates are renewed: the decision as a table, and ten years of it with several replicas."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import pytest

from certs import keyring, pki, rotation
from certs.keyring import Keyring, Retired
from certs.pki import KeyPair
from certs.rotation import (
    DropOld,
    IssueLeaf,
    Keep,
    NewCA,
    Policy,
    Promote,
    PublishBundle,
    View,
    decide,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
NAMES = pki.service_names("accel-injector", "accel-system")
POLICY = Policy(NAMES)
ENTRIES = ("pods.accel.io", "jobset.workloads.accel.io")


def view(
    ring: Keyring,
    *,
    leaf: KeyPair | None = None,
    bundle: bytes | None = None,
    settled: datetime | None = None,
) -> View:
    """A replica's view; the keyring's own bundle is in every entry unless another is given."""
    found = ring.bundle() if bundle is None else bundle
    return View(ring, dict.fromkeys(ENTRIES, found), leaf, settled)


def issued(ca: KeyPair, at: datetime = NOW) -> KeyPair:
    """A leaf with the Service's names."""
    return pki.issue(ca, NAMES, at)


# What a replica does, by the age of things


@pytest.mark.parametrize(
    ("ca_age", "leaf_age", "expected"),
    [
        (0 * DAY, 0 * DAY, Keep),
        (4 * DAY, 4 * DAY, Keep),
        (5 * DAY, 5 * DAY, IssueLeaf),
        (8 * DAY, 8 * DAY, IssueLeaf),
        (243 * DAY, 1 * DAY, Keep),
        (244 * DAY, 1 * DAY, NewCA),
        (244 * DAY, 5 * DAY, IssueLeaf),
        (300 * DAY, 1 * DAY, NewCA),
        (366 * DAY, 1 * DAY, NewCA),
    ],
)
def test_renewal_by_age(ca_age: timedelta, leaf_age: timedelta, expected: type) -> None:
    """A leaf is renewed at two thirds of seven days, a CA at two thirds of a year, the leaf first."""
    ca = pki.new_ca(NOW - ca_age)
    seen = view(Keyring(signing=ca), leaf=issued(ca, NOW - leaf_age), settled=NOW - HOUR)

    assert isinstance(decide(seen, NOW, POLICY), expected)


def test_first_start() -> None:
    """An empty Secret gets a CA, then the replica a leaf at once, then the entries the bundle."""
    empty = View(Keyring(), dict.fromkeys(ENTRIES, b""))
    action = decide(empty, NOW, POLICY)
    assert action == NewCA(())
    assert isinstance(action, NewCA)

    ring = rotation.changed(Keyring(), action, NOW, POLICY)
    assert (ring.signing, ring.retired) == (None, ())
    assert ring.upcoming is not None
    assert decide(view(ring, bundle=b""), NOW, POLICY) == IssueLeaf(ring.upcoming)

    leaf = issued(ring.upcoming)
    assert decide(view(ring, leaf=leaf, bundle=b""), NOW, POLICY) == PublishBundle(ring.bundle())
    assert decide(view(ring, leaf=leaf, settled=NOW), NOW, POLICY) == Keep(NOW + 2 * MINUTE)
    assert decide(view(ring, leaf=leaf, settled=NOW - 2 * MINUTE), NOW, POLICY) == Promote()

    ring = rotation.changed(ring, Promote(), NOW, POLICY)
    assert ring.rotations == 0, "the first CA is no rotation"
    assert isinstance(decide(view(ring, leaf=leaf, settled=NOW), NOW, POLICY), Keep), "the leaf stays as it is"


def test_rotation_step_by_step() -> None:
    """Publish both, wait the overlap, promote, re-issue, and only 35 days later drop the old one."""
    old = pki.new_ca(NOW - 244 * DAY)
    leaf = issued(old)
    ring = Keyring(signing=old)
    ring = rotation.changed(ring, NewCA(), NOW, POLICY)
    new = ring.upcoming
    assert new is not None
    assert pki.split(ring.bundle()) == [new.certificate, old.certificate]

    assert decide(view(ring, leaf=leaf, bundle=old.certificate), NOW, POLICY) == PublishBundle(ring.bundle())
    waiting = view(ring, leaf=leaf, settled=NOW)
    assert decide(waiting, NOW + MINUTE, POLICY) == Keep(NOW + 2 * MINUTE)
    assert decide(waiting, NOW + 2 * MINUTE, POLICY) == Promote()

    bundle = ring.bundle()
    ring = rotation.changed(ring, Promote(), NOW, POLICY)
    assert ring == Keyring(signing=new, retired=(Retired(old.certificate, NOW + 35 * DAY),), rotations=1)
    assert ring.bundle() == bundle, "promotion alone changes no entry"

    assert decide(view(ring, leaf=leaf, settled=NOW), NOW, POLICY) == IssueLeaf(new)
    fresh = issued(new, NOW + 34 * DAY)
    later = view(ring, leaf=fresh, settled=NOW)
    assert decide(later, NOW + 34 * DAY, POLICY) == Keep(NOW + 35 * DAY)
    assert decide(later, NOW + 35 * DAY, POLICY) == DropOld((old.certificate,))
    assert rotation.changed(ring, DropOld((old.certificate,)), NOW, POLICY) == Keyring(signing=new, rotations=1)


def test_the_overlap_starts_again_when_the_bundle_was_cleared() -> None:
    """Only an unbroken sight of both CAs in every entry counts towards the overlap."""
    ring = Keyring(signing=pki.new_ca(NOW - 244 * DAY), upcoming=pki.new_ca(NOW))
    seen = view(ring, settled=NOW)
    partly = replace(seen, entries={**seen.entries, ENTRIES[1]: b""})

    assert rotation.settled(seen, seen, NOW + MINUTE) == NOW
    assert rotation.settled(seen, partly, NOW + MINUTE) is None
    assert rotation.settled(replace(partly, settled=None), seen, NOW + MINUTE) == NOW + MINUTE
    assert rotation.settled(None, seen, NOW + MINUTE) == NOW + MINUTE
    assert rotation.settled(seen, replace(seen, keyring=replace(ring, rotations=7)), NOW + MINUTE) == NOW + MINUTE


def test_a_clock_set_back_does_not_stop_a_rotation() -> None:
    """Where the clock was put back by a year the overlap is counted from its new time."""
    seen = view(Keyring(signing=pki.new_ca(NOW), upcoming=pki.new_ca(NOW)), settled=NOW)

    assert rotation.settled(seen, seen, NOW - 365 * DAY) == NOW - 365 * DAY


def test_a_configuration_without_entries_promotes_nobody() -> None:
    """While the webhook configuration is absent nothing is published, and the leaf is there already."""
    ring = Keyring(signing=pki.new_ca(NOW - 244 * DAY), upcoming=pki.new_ca(NOW))
    assert ring.signing is not None
    seen = View(ring, {}, issued(ring.signing))

    assert not rotation.published(seen)
    assert rotation.settled(None, seen, NOW) is None
    assert isinstance(decide(seen, NOW + DAY, POLICY), Keep)


@pytest.mark.parametrize("found", [b"", b"junk", pki.new_ca(NOW).certificate])
def test_one_wrong_entry_is_repaired(found: bytes) -> None:
    """An entry that was cleared, replaced or added gets the bundle, whatever the others say."""
    ca = pki.new_ca(NOW)
    seen = view(Keyring(signing=ca), leaf=issued(ca))

    action = decide(replace(seen, entries={**seen.entries, "added.accel.io": found}), NOW, POLICY)

    assert action == PublishBundle(ca.certificate)


def test_a_wish_starts_a_rotation() -> None:
    """The annotation starts one rotation, not two, and a wish during a rotation is met by it."""
    ca = pki.new_ca(NOW)
    asked = view(Keyring(signing=ca, wanted="now"), leaf=issued(ca))
    assert decide(asked, NOW, POLICY) == NewCA()

    ring = rotation.changed(asked.keyring, NewCA(), NOW, POLICY)
    assert (ring.wanted, ring.distrust) == ("", False)
    again = replace(ring, wanted="now")
    assert isinstance(decide(view(again, leaf=issued(ca)), NOW, POLICY), Keep)
    assert rotation.changed(again, Promote(), NOW, POLICY).wanted == ""


def test_a_distrusted_ca_goes_after_one_more_overlap() -> None:
    """After a leak the old CA is removed from the bundle once replicas had an overlap to get new leaves."""
    old = pki.new_ca(NOW)
    ring = rotation.changed(Keyring(signing=old, wanted="distrust"), NewCA(), NOW, POLICY)
    assert ring.distrust
    ring = rotation.changed(ring, Promote(), NOW, POLICY)
    assert not ring.distrust
    assert ring.signing is not None
    seen = view(ring, leaf=issued(ring.signing), settled=NOW)

    assert decide(seen, NOW + MINUTE, POLICY) == Keep(NOW + 2 * MINUTE)
    assert decide(seen, NOW + 2 * MINUTE, POLICY) == DropOld((old.certificate,))


def test_a_lost_secret_breaks_no_leaf() -> None:
    """A Secret that was emptied by hand is filled again, and the CAs in use stay trusted meanwhile."""
    ca = pki.new_ca(NOW - 30 * DAY)
    foreign, expired = b"junk", pki.new_ca(NOW - 400 * DAY)
    leaf = issued(ca, NOW - DAY)
    found = {"a": ca.certificate + expired.certificate, "b": foreign}
    action = decide(View(Keyring(), found, leaf), NOW, POLICY)
    assert action == NewCA((ca.certificate,))
    assert isinstance(action, NewCA)

    ring = rotation.changed(Keyring(), action, NOW, POLICY)
    assert decide(view(ring, leaf=leaf, settled=NOW), NOW, POLICY) == Keep(NOW + 2 * MINUTE), "the old leaf serves on"
    ring = rotation.changed(ring, Promote(), NOW, POLICY)
    assert ring.signing is not None
    assert decide(view(ring, leaf=leaf, settled=NOW), NOW, POLICY) == IssueLeaf(ring.signing)


def test_a_leaf_for_other_names_is_replaced() -> None:
    """After the Service was renamed the leaf is issued anew."""
    ca = pki.new_ca(NOW)
    other = pki.issue(ca, ["old-name.accel-system.svc"], NOW)

    assert decide(view(Keyring(signing=ca), leaf=other), NOW, POLICY) == IssueLeaf(ca)


def test_a_clock_far_behind_makes_no_ca() -> None:
    """A replica whose clock says last year takes its leaf from the CA that is there."""
    ca = pki.new_ca(NOW)

    assert decide(view(Keyring(signing=ca)), NOW - 365 * DAY, POLICY) == IssueLeaf(ca)


@pytest.mark.parametrize(
    ("leaf", "ca", "overlap"),
    [
        (7 * DAY, 20 * DAY, MINUTE),
        (7 * DAY, 21 * DAY, MINUTE),
        (HOUR, 365 * DAY, 0 * DAY),
        (-DAY, DAY, MINUTE),
    ],
)
def test_a_policy_that_cannot_hold_is_refused(leaf: timedelta, ca: timedelta, overlap: timedelta) -> None:
    """Lifetimes that would let a leaf outlive its CA are an error at the start."""
    with pytest.raises(ValueError, match="lifetime"):
        Policy(NAMES, leaf, ca, overlap)


# The Secret's form


def test_keyring_survives_the_secret() -> None:
    """Every part of a keyring comes back from the Secret's data as it was written."""
    ring = Keyring(
        signing=pki.new_ca(NOW),
        upcoming=pki.new_ca(NOW),
        retired=(
            Retired(pki.new_ca(NOW).certificate, NOW + DAY),
            Retired(pki.new_ca(NOW).certificate, NOW),
        ),
        rotations=3,
        distrust=True,
    )

    assert keyring.from_secret(keyring.to_secret(ring), {}) == ring
    assert keyring.from_secret({}, {}) == Keyring()
    assert keyring.from_secret({}, {keyring.ROTATE_ANNOTATION: "now"}) == Keyring(wanted="now")


@pytest.mark.parametrize(
    "broken",
    [
        {"ca.key": ""},
        {"ca.key": "!!"},
        {"ca.crt": "anVuaw=="},
        {"ca.key": keyring.to_secret(Keyring(signing=pki.new_ca(NOW)))["ca.key"]},
    ],
    ids=["no key", "not base64", "no certificate", "another key"],
)
def test_a_broken_secret_is_an_absent_one(broken: dict[str, str]) -> None:
    """A CA whose certificate and key do not match counts as absent, without an exception."""
    data = keyring.to_secret(Keyring(signing=pki.new_ca(NOW), rotations=2))

    assert keyring.from_secret({**data, **broken}, {}) == Keyring(rotations=2)


def test_lost_notes_keep_retired_cas() -> None:
    """Without its record a retired CA stays trusted until it expires, which breaks no call."""
    ring = Keyring(signing=pki.new_ca(NOW), retired=(Retired(pki.new_ca(NOW).certificate, NOW),))
    data = keyring.to_secret(ring) | {"keyring.json": "e30="}

    assert [old.until for old in keyring.from_secret(data, {}).retired] == [NOW + 365 * DAY]


# Ten years


@dataclass
class World:
    """The API server: one Secret and one configuration, each behind its resourceVersion."""

    ring: Keyring = field(default_factory=Keyring)
    ring_version: int = 0
    entries: dict[str, bytes] = field(default_factory=lambda: dict.fromkeys(ENTRIES, b""))
    entries_version: int = 0
    conflicts: int = 0

    def write_ring(self, seen: int, ring: Keyring) -> None:
        """As the Secret is written: only over the version that the writer has read, and through its form."""
        if seen != self.ring_version:
            self.conflicts += 1
            return
        self.ring = keyring.from_secret(keyring.to_secret(ring), {})
        self.ring_version += 1

    def write_entries(self, seen: int, bundle: bytes) -> None:
        """As caBundle is written: only over the version that the writer has read."""
        if seen != self.entries_version:
            self.conflicts += 1
            return
        self.entries = dict.fromkeys(ENTRIES, bundle)
        self.entries_version += 1


@dataclass
class Replica:
    """One pod: its clock's error, its leaf, and what it saw last."""

    skew: timedelta = timedelta(0)
    cut_off: tuple[datetime, datetime] = (datetime.max.replace(tzinfo=UTC),) * 2
    """While it cannot reach the API server; it is still called."""
    absent: tuple[datetime, datetime] = (datetime.max.replace(tzinfo=UTC),) * 2
    """While it does not run."""
    seen: View | None = None
    versions: tuple[int, int] = (-1, -1)
    leaf: KeyPair | None = None
    leaves: int = 0

    def look(self, world: World, true_time: datetime) -> None:
        """Read both objects; a replica that is cut off keeps what it knew."""
        if self.seen and self.cut_off[0] <= true_time < self.cut_off[1]:
            self.seen = replace(self.seen, leaf=self.leaf)
            return
        fresh = View(world.ring, world.entries, self.leaf)
        self.seen = replace(fresh, settled=rotation.settled(self.seen, fresh, true_time + self.skew))
        self.versions = (world.ring_version, world.entries_version)

    def act(self, world: World, true_time: datetime, policy: Policy) -> bool:
        """Do the next step on what was seen; False where there is nothing to do (or no way to do it)."""
        assert self.seen is not None
        now = true_time + self.skew
        action = decide(self.seen, now, policy)
        if isinstance(action, IssueLeaf):
            self.leaf = pki.issue(action.issuer, policy.names, now, policy.leaf_lifetime)
            self.leaves += 1
            return True
        if isinstance(action, Keep) or self.cut_off[0] <= true_time < self.cut_off[1]:
            return False
        if isinstance(action, PublishBundle):
            world.write_entries(self.versions[1], action.bundle)
        else:
            world.write_ring(self.versions[0], rotation.changed(self.seen.keyring, action, now, policy))
        return True


split = lru_cache(pki.split)


def trusts(world: World, leaf: KeyPair) -> bool:
    """Whether every entry holds the leaf's CA."""
    bundles = (split(bundle) for bundle in world.entries.values())
    return all(any(pki.issued_by(leaf.certificate, ca) for ca in bundle) for bundle in bundles)


def assert_answers(world: World, replica: Replica, now: datetime, *, deep: bool) -> None:
    """A client that trusts any one entry accepts the replica's leaf, even if clocks differ by five minutes."""
    assert replica.leaf is not None
    leaf = replica.leaf.certificate
    for bundle, entry in {bundle: entry for entry, bundle in world.entries.items()}.items():  # most have the same
        signer = next((ca for ca in split(bundle) if pki.issued_by(leaf, ca)), None)
        assert signer is not None, f"{now}: a leaf's CA is outside {entry}"
        for at in (now - 5 * MINUTE, now + 5 * MINUTE):
            for certificate in (leaf, signer):
                assert pki.not_before(certificate) <= at < pki.not_after(certificate), f"{now}: expired"
        if deep:
            assert pki.valid_at(leaf, bundle, NAMES, now), f"{now}: refused"


def hours(years: int) -> Iterator[datetime]:
    """Every hour from NOW on."""
    return (NOW + hour * HOUR for hour in range(years * 365 * 24))


MONTH = (NOW + 230 * DAY, NOW + 261 * DAY)  # the first rotation (day 243) falls into it


@pytest.mark.parametrize(
    "replicas",
    [
        [Replica(), Replica(5 * MINUTE, absent=MONTH), Replica(-5 * MINUTE, cut_off=MONTH)],
        [Replica(absent=MONTH)],
    ],
    ids=["clocks apart, one away for a month, one cut off for a month", "all away for a month"],
)
def test_ten_years(replicas: list[Replica]) -> None:
    """Hour by hour for ten years, no leaf or CA is expired and every leaf chains to the bundle."""
    world = World()
    samples = 0
    for number, now in enumerate(hours(10)):
        present = [r for r in replicas if not r.absent[0] <= now < r.absent[1]]
        back = [r for r in present if r.absent[1] == now]
        for replica in present:
            replica.look(world, now)  # all read before anyone writes: the race that loses a write
        busy = list(present)
        while busy:
            busy = [r for r in busy if r.act(world, now, POLICY)]
            for replica in busy:
                replica.look(world, now)
            # Between its return and its first step a replica is not ready, nor is anyone at the very start.
            serving = [r for r in present if number and r not in back]
            for replica in serving if busy else present:
                samples += 1
                assert_answers(world, replica, now, deep=bool(busy) or number % 240 == 0)
    leaves = sum(replica.leaves for replica in replicas)
    races = world.conflicts
    print(f"{samples} samples, {leaves} leaves, {world.ring.rotations} CA rotations, {races} races lost")
    assert world.ring.rotations == 14, "a CA every 243 days and a little"
    assert len(pki.split(world.ring.bundle())) <= 2


@pytest.mark.parametrize("seed", range(2))
def test_any_interleaving(seed: int) -> None:
    """Replicas look, act late on what they saw, and start anew, in random order: each that is ready is accepted.

    By an API server that is up to date, and by one that learns of a changed caBundle 90 s later.
    """
    chance = random.Random(seed)
    policy = Policy(NAMES, leaf_lifetime=HOUR, ca_lifetime=8 * HOUR, overlap=2 * MINUTE)
    world = World()
    replicas = [Replica(skew) for skew in (0 * MINUTE, 5 * MINUTE, -5 * MINUTE)]
    ready: set[int] = set()
    history = deque([(NOW, world.entries)])
    now, samples, restarts = NOW, 0, 0
    for _ in range(20_000):
        now += timedelta(seconds=chance.uniform(0, 10))
        number = chance.randrange(3)
        replica = replicas[number]
        match chance.choices(("look", "act", "new container", "new pod", "wish"), (50, 50, 0.3, 0.2, 0.02))[0]:
            case "look":
                replica.look(world, now)
            case "act" if replica.seen:
                replica.act(world, now, policy)
                replica.seen = None if chance.random() < 0.5 else replace(replica.seen, leaf=replica.leaf)
            case "new container":
                replica.seen = None  # the directory keeps the leaf
                restarts += 1
            case "new pod":
                replica.seen = replica.leaf = None
                ready.discard(number)
                restarts += 1
            case "wish":
                world.ring = replace(world.ring, wanted="now")
                world.ring_version += 1
        history.append((now, world.entries))
        while len(history) > 1 and history[1][0] <= now - timedelta(seconds=90):
            history.popleft()
        verifiers = (world, World(entries=history[0][1]))
        for other, candidate in enumerate(replicas):
            if candidate.leaf and all(trusts(verifier, candidate.leaf) for verifier in verifiers):
                ready.add(other)
        for other in ready:
            samples += 1
            for verifier in verifiers:
                assert_answers(verifier, replicas[other], now, deep=False)
    print(f"{samples} samples, {restarts} restarts, {world.ring.rotations} rotations, {world.conflicts} races lost")
    assert world.ring.rotations > 5
