"""Certificates as RFC 5280 wants them, and as a TLS client meets them."""

import re
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs import pki
from certs.pki import KeyPair

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NAMES = pki.service_names("accel-injector", "accel-system")


def assert_is_ca(pem: bytes) -> None:
    """RFC 5280 section 4.2: what a certificate must say to sign others."""
    extensions = x509.load_pem_x509_certificate(pem).extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert not usage.value.digital_signature
    assert extensions.get_extension_for_class(x509.SubjectKeyIdentifier).critical is False
    assert not [e for e in extensions if isinstance(e.value, x509.SubjectAlternativeName | x509.ExtendedKeyUsage)]


def assert_is_leaf(pem: bytes) -> None:
    """RFC 5280 section 4.2: what a serving certificate must say, and must not."""
    extensions = x509.load_pem_x509_certificate(pem).extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value.ca is False
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    extended = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert list(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def test_ca_and_leaf_follow_rfc_5280() -> None:
    """Both have the extensions that section 4.2 requires for their role, and the leaf names its CA's key."""
    ca = pki.new_ca(NOW)
    leaf = pki.issue(ca, NAMES, NOW)

    assert_is_ca(ca.certificate)
    assert_is_leaf(leaf.certificate)

    signer = x509.load_pem_x509_certificate(ca.certificate).extensions
    signed = x509.load_pem_x509_certificate(leaf.certificate).extensions
    identifier = signed.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert identifier == signer.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest


def test_keys_are_p256() -> None:
    """CA and leaf use ECDSA P-256, each with a key of its own."""
    ca = pki.new_ca(NOW)
    leaf = pki.issue(ca, NAMES, NOW)

    for pair in (ca, leaf):
        key = x509.load_pem_x509_certificate(pair.certificate).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.curve.name == "secp256r1"
        assert pki.matches(pair)
    assert not pki.matches(KeyPair(leaf.certificate, ca.key))
    assert not pki.matches(KeyPair(b"junk", ca.key))


def test_lifetimes() -> None:
    """A CA lives a year, a leaf seven days, and both began an hour ago."""
    ca = pki.new_ca(NOW)
    leaf = pki.issue(ca, NAMES, NOW)

    assert pki.not_before(ca.certificate) == pki.not_before(leaf.certificate) == NOW - timedelta(hours=1)
    assert pki.not_after(ca.certificate) == NOW + timedelta(days=365)
    assert pki.not_after(leaf.certificate) == NOW + timedelta(days=7)


def test_a_leaf_never_outlives_its_ca() -> None:
    """If the CA expires soon, the leaf expires with it."""
    ca = pki.new_ca(NOW)
    leaf = pki.issue(ca, NAMES, NOW + timedelta(days=362))

    assert pki.not_after(leaf.certificate) == pki.not_after(ca.certificate)


def test_names() -> None:
    """A leaf is for the Service's names, and for an address where one is asked for."""
    leaf = pki.issue(pki.new_ca(NOW), [*NAMES, "127.0.0.1"], NOW)

    assert pki.names_of(leaf.certificate) == {
        "accel-injector.accel-system.svc",
        "accel-injector.accel-system.svc.cluster.local",
        "accel-injector.accel-system",
        "127.0.0.1",
    }
    with pytest.raises(ValueError, match="at least one name"):
        pki.issue(pki.new_ca(NOW), [], NOW)


@pytest.mark.parametrize(
    ("at", "names", "trusted", "expected"),
    [
        (timedelta(0), NAMES, "own", True),
        (timedelta(minutes=-59), NAMES, "own", True),
        (timedelta(minutes=-61), NAMES, "own", False),
        (timedelta(days=7, seconds=-1), NAMES, "own", True),
        (timedelta(days=7, seconds=1), NAMES, "own", False),
        (timedelta(0), ["other.accel-system.svc"], "own", False),
        (timedelta(0), [], "own", False),
        (timedelta(0), NAMES, "other", False),
        (timedelta(0), NAMES, "both", True),
        (timedelta(0), NAMES, "none", False),
        (timedelta(0), NAMES, "junk", False),
    ],
)
def test_valid_at(at: timedelta, names: list[str], trusted: str, expected: bool) -> None:
    """A leaf is valid within its lifetime, for its names, with its CA, and never otherwise."""
    ca, other = pki.new_ca(NOW), pki.new_ca(NOW)
    leaf = pki.issue(ca, NAMES, NOW)
    bundles = {
        "own": ca.certificate,
        "other": other.certificate,
        "both": other.certificate + ca.certificate,
        "none": b"",
        "junk": b"-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n",
    }

    assert pki.valid_at(leaf.certificate, bundles[trusted], names, NOW + at) is expected


def test_a_leaf_falls_with_its_ca() -> None:
    """After a CA has expired none of its leaves is valid, and a CA is not a serving certificate."""
    ca = pki.new_ca(NOW, timedelta(days=1))
    leaf = pki.issue(ca, NAMES, NOW)

    assert pki.valid_at(leaf.certificate, ca.certificate, NAMES, NOW + timedelta(hours=23))
    assert not pki.valid_at(leaf.certificate, ca.certificate, NAMES, NOW + timedelta(hours=25))
    assert not pki.valid_at(ca.certificate, ca.certificate, NAMES, NOW)


def test_cas_never_share_a_name() -> None:
    """Each CA's subject differs, so that a bundle of two is unambiguous."""
    first, second = pki.new_ca(NOW), pki.new_ca(NOW)

    assert pki.parse(first.certificate).subject != pki.parse(second.certificate).subject
    assert pki.issued_by(pki.issue(first, NAMES, NOW).certificate, first.certificate)
    assert not pki.issued_by(pki.issue(first, NAMES, NOW).certificate, second.certificate)


def test_a_key_is_never_printed() -> None:
    """The repr of a key pair shows the certificate alone."""
    pair = pki.new_ca(NOW)

    assert "BEGIN CERTIFICATE" in repr(pair)
    assert not re.search("PRIVATE", repr(pair))


def test_is_ours() -> None:
    """Only CAs that this project creates count as its own."""
    ca = pki.new_ca(NOW)

    assert pki.is_ours(ca.certificate)
    assert not pki.is_ours(pki.issue(ca, NAMES, NOW).certificate)
    assert not pki.is_ours(b"junk")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_handshake(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """A client that trusts the CA completes a handshake, whichever of two CAs signed."""
    now = datetime.now(UTC)
    old, new = pki.new_ca(now), pki.new_ca(now)
    bundle = (old.certificate + new.certificate).decode()

    for ca in (old, new):
        assert _handshake(tmp_path, pki.issue(ca, NAMES, now), bundle, version) == version.name.replace("_", ".")


def test_handshake_refused(tmp_path: Path) -> None:
    """A client that trusts another CA, or asks for another name, refuses."""
    now = datetime.now(UTC)
    ca, other = pki.new_ca(now), pki.new_ca(now)
    leaf = pki.issue(ca, NAMES, now)

    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(tmp_path, leaf, other.certificate.decode(), ssl.TLSVersion.TLSv1_3)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _handshake(tmp_path, leaf, ca.certificate.decode(), ssl.TLSVersion.TLSv1_3, "other.accel-system.svc")


def _handshake(folder: Path, leaf: KeyPair, bundle: str, version: ssl.TLSVersion, name: str = NAMES[0]) -> str | None:
    """The protocol that a client with `bundle` agrees on with a server that has `leaf`."""
    (folder / "tls.crt").write_bytes(leaf.certificate)
    (folder / "tls.key").write_bytes(leaf.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    client = ssl.create_default_context(cadata=bundle)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.minimum_version = client.maximum_version = version
    near, far = socket.socketpair()

    def serve() -> None:
        try:
            server.wrap_socket(far, server_side=True).close()
        except OSError:
            far.close()  # the client refused: its side of the test says why

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(near, server_hostname=name) as secure:
            return secure.version()
    finally:
        near.close()
        thread.join()
