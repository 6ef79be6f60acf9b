"""Certificates: does caBundle match the serving certificate, and until when. Pure.

The serving certificate of self-managed replicas is only in their memory, so the CA that signs it is checked instead;
the dry run shows whether the API server accepts it.
"""

import base64
import binascii
from collections.abc import Iterator
from datetime import timedelta

from certs import duration, pki
from certs.keyring import stamp
from webhook.check.configuration import ABSENT
from webhook.check.facts import Configuration, DryRun, Entry, Facts, Trust, Unread
from webhook.check.finding import Finding, failed, ok, pointless, skipped, warning

SOON = timedelta(days=14)
"""A manually renewed certificate should be valid for longer than this."""
RENEWED_BY = 4
"""Automatic renewal happens with a third of the lifetime left: with less than a quarter, it has failed."""
CERT_MANAGER = "cert-manager.io/inject-ca-from"


def ca_bundle(facts: Facts) -> Finding:
    """Every entry's caBundle accepts the certificate that replicas serve."""
    found, trust = facts.configuration, facts.trust
    if isinstance(found, Unread):
        return skipped(found)
    if found is None or not found.webhooks:
        return pointless(ABSENT)
    empty = [entry.name for entry in found.webhooks if not _bundle(entry)]
    if empty:
        message = f"{len(empty)} of {len(found.webhooks)} entries have no readable caBundle"
        return failed(message, _refill(facts), *_some(empty, found.webhooks))
    refused = facts.dry_run.uncalled if isinstance(facts.dry_run, DryRun) else ""
    if "x509" in refused or "tls:" in refused:
        return failed("the API server does not accept the serving certificate", _refill(facts), refused)
    if trust is None:
        return failed("the Secret with the certificates is missing", _refill(facts))
    if isinstance(trust, Unread):
        return skipped(trust)
    return _accepted(facts, trust, found.webhooks)


def expiry(facts: Facts) -> Finding:
    """No certificate that callers verify expires soon."""
    found, trust = facts.configuration, facts.trust
    entries = (found.webhooks or []) if isinstance(found, Configuration) else []
    ends = [*_of_secret(facts, trust), *_of_entries(facts, entries)]
    if not ends:
        return skipped(trust) if isinstance(trust, Unread) else pointless("there is no certificate to check")
    lines, worst = [], ok("")
    for certificate, what, renewed in ends:
        left = pki.not_after(certificate) - facts.now
        until = f"{what} until {stamp(pki.not_after(certificate))}"
        lines.append(f"{until}, {duration.spell(left)} left" if left > timedelta(0) else f"{until}: expired")
        if left <= timedelta(0):
            worst = failed("a certificate has expired", _refill(facts))
        elif left < _margin(certificate, renewed) and worst.status == "ok":
            worst = warning("a certificate expires soon and was not renewed", _refill(facts))
    if worst.status == "ok":
        return ok("; ".join(lines))
    return Finding(worst.status, worst.message, worst.fix, tuple(lines))


def _accepted(facts: Facts, trust: Trust, entries: list[Entry]) -> Finding:
    wrong = [entry.name for entry in entries if not _accepts(entry, trust, facts)]
    what = f"the certificate in Secret {trust.secret}" if trust.leaf else f"the CA in Secret {trust.secret}"
    if not trust.leaf and not trust.signing:
        return failed(f"Secret {trust.secret} contains no readable certificate", _refill(facts))
    if wrong:
        message = f"{len(wrong)} of {len(entries)} entries do not trust {what}"
        return failed(message, _refill(facts), *_some(wrong, entries))
    return ok(f"all {len(entries)} entries trust {what}")


def _some(names: list[str], entries: list[Entry]) -> list[str]:
    """Names, unless it is all of them."""
    return names if len(names) < len(entries) else []


def _accepts(entry: Entry, trust: Trust, facts: Facts) -> bool:
    """Trust only: an expired leaf is reported by `expiry`."""
    bundle = _bundle(entry)
    if not trust.leaf:
        return set(pki.split(trust.signing)) <= set(_split(entry))
    release = facts.release
    try:
        at = min(facts.now, pki.not_after(trust.leaf) - timedelta(seconds=1))
    except ValueError:
        return False
    return pki.valid_at(trust.leaf, bundle, pki.service_names(release.fullname, release.namespace)[:1], at)


Dated = tuple[bytes, str, bool]
"""A certificate, what it is, and whether it is renewed automatically."""


def _of_secret(facts: Facts, trust: Trust | Unread | None) -> Iterator[Dated]:
    if not isinstance(trust, Trust):
        return
    if trust.signing:
        yield trust.signing, "CA", True
    if trust.leaf and _readable(trust.leaf):
        yield trust.leaf, "serving certificate", _by_cert_manager(facts)


def _of_entries(facts: Facts, entries: list[Entry]) -> Iterator[Dated]:
    """The CA that is valid longest: predecessors in the same bundle may expire."""
    bundled = [ca for entry in entries[:1] for ca in _split(entry)]
    if bundled and not (isinstance(facts.trust, Trust) and facts.trust.signing):
        yield max(bundled, key=pki.not_after), "CA in caBundle", _by_cert_manager(facts)


def _margin(certificate: bytes, renewed: bool) -> timedelta:
    life: timedelta = pki.not_after(certificate) - pki.not_before(certificate)
    return min(SOON, life / RENEWED_BY) if renewed else SOON


def _refill(facts: Facts) -> str:
    """What writes certificates and caBundle, and how to find out why it does not."""
    release, deployment = facts.release, facts.deployment
    mounted = deployment.secret if deployment is not None and not isinstance(deployment, Unread) else ""
    if not mounted:
        return f"The certs container writes it: kubectl -n {release.namespace} logs deploy/{release.fullname} -c certs"
    if _by_cert_manager(facts):
        return f"cert-manager writes it: kubectl -n {release.namespace} describe certificate {mounted}"
    issue = (
        f"accel certs issue --service {release.fullname} --namespace {release.namespace} --dir DIR --secret {mounted}"
    )
    return f"{issue} | kubectl apply -f -, then helm upgrade with --set-file tls.caBundle=DIR/ca.crt"


def _by_cert_manager(facts: Facts) -> bool:
    found = facts.configuration
    return isinstance(found, Configuration) and CERT_MANAGER in (found.metadata.annotations or {})


def _bundle(entry: Entry) -> bytes:
    """The PEM text; empty if it cannot be read."""
    try:
        pem = base64.b64decode(entry.clientConfig.caBundle or "", validate=True)
        pki.split(pem)
    except (binascii.Error, ValueError):
        return b""
    return pem


def _split(entry: Entry) -> list[bytes]:
    pem = _bundle(entry)
    return pki.split(pem) if pem else []


def _readable(certificate: bytes) -> bool:
    try:
        pki.parse(certificate)
    except ValueError:
        return False
    return True
