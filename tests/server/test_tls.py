"""The serving certificate: what is accepted, what is refused and why, and the swap under load."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from certs import pki
from tests.support.identity import identity
from webhook.errors import BadPair
from webhook.server.tls import Certificate, Pem, build, names_of

NOW = datetime.now(UTC)
CA = pki.new_ca(NOW)
NAMES = ("localhost", "webhook.accel.svc")


def pem(name: str = "localhost", now: datetime = NOW, lifetime: timedelta = timedelta(days=7)) -> Pem:
    """A certificate from the test's CA."""
    pair = pki.issue(CA, (name,), now, lifetime)
    return Pem(pair.certificate, pair.key)


def test_a_good_pair() -> None:
    """Its end, its names and its fingerprint are known."""
    pair = pki.issue(CA, NAMES, NOW)
    built = build(Pem(pair.certificate, pair.key), NOW)
    assert built.names == NAMES
    assert built.not_after == pki.not_after(pair.certificate)
    assert built.sha256 == pki.fingerprint(pair.certificate)


def nameless() -> Pem:
    """A certificate that has a common name only, as old tools make them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin, end = NOW - timedelta(hours=1), NOW + timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return Pem(certificate, _pem_key(key))


def _pem_key(key: ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)


GOOD, OTHER = pem(), pem()
ENCRYPTED = _pem_key(ec.generate_private_key(ec.SECP256R1()), b"secret")

BAD = {
    "key of another": (Pem(GOOD.certificate, OTHER.key), "does not belong"),
    "half a certificate": (Pem(GOOD.certificate[:200], GOOD.key), "no readable PEM certificate"),
    "half a key": (Pem(GOOD.certificate, GOOD.key[:80]), "private key"),
    "no certificate": (Pem(b"", GOOD.key), "no readable PEM certificate"),
    "no key": (Pem(GOOD.certificate, b""), "private key"),
    "an encrypted key": (Pem(GOOD.certificate, ENCRYPTED), "unencrypted"),
    "junk": (Pem(b"\x00\xff" * 100, b"\xff"), "no readable PEM certificate"),
    "ended": (pem(now=NOW - timedelta(days=8)), "the certificate expired"),
    "not begun": (pem(now=NOW + timedelta(hours=2)), "the certificate is not valid before"),
    "no names": (nameless(), "subjectAltName"),
    "a chain of strangers": (Pem(GOOD.certificate + OTHER.certificate, GOOD.key), "certificate 2"),
    "a client CA that is none": (Pem(GOOD.certificate, GOOD.key, b"no certificate"), "OpenSSL refuses"),
    "a client CA in no ASCII": (Pem(GOOD.certificate, GOOD.key, b"\xff"), "OpenSSL refuses"),
}


@pytest.mark.parametrize(("bad", "why"), BAD.values(), ids=BAD.keys())
def test_what_cannot_serve_is_refused(bad: Pem, why: str) -> None:
    """Each with its reason, and before anything that serves has been touched."""
    with pytest.raises(BadPair, match=why):
        build(bad, NOW)


def test_a_chain_is_served_whole() -> None:
    """A file with a leaf followed by its CA is accepted."""
    assert build(Pem(GOOD.certificate + CA.certificate, GOOD.key), NOW).names == ("localhost",)


def test_secrets_do_not_show() -> None:
    """A Pem in a traceback or a log shows sizes, not the key."""
    assert b"PRIVATE" in GOOD.key
    assert "PRIVATE" not in repr(GOOD)


def test_a_clients_names() -> None:
    """Common names and DNS names count; organisations and addresses do not."""
    peer = {
        "subject": ((("organizationName", "system:masters"),), (("commonName", "kube-apiserver"),)),
        "subjectAltName": (("DNS", "api.example"), ("IP Address", "10.0.0.1")),
    }
    assert names_of(peer) == {"kube-apiserver", "api.example"}
    assert names_of({}) == frozenset()


@contextmanager
def serving(certificate: Certificate) -> Iterator[int]:
    """A listener that shakes hands and closes, for as long as the block lasts; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                plain.settimeout(10)
                certificate.context.wrap_socket(plain, server_side=True).close()
            except OSError:
                plain.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def shake(port: int, client: ssl.SSLContext, sni: bool = True) -> tuple[str, str]:
    """The serial of the certificate that is served now, and the TLS version."""
    client.check_hostname = sni
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        client.wrap_socket(plain, server_hostname="localhost" if sni else None) as tls,
    ):
        peer = tls.getpeercert()
        assert peer is not None
        return str(peer["serialNumber"]).lstrip("0"), tls.version() or ""


def serial(of: Pem) -> str:
    return f"{pki.parse(of.certificate).serial_number:X}"


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("sni", [True, False], ids=["SNI", "no SNI"])
def test_the_swap_is_seen_by_the_next_connection(version: str, sni: bool) -> None:
    """With and without SNI, in both TLS versions."""
    client = ssl.create_default_context(cadata=CA.certificate.decode())
    client.maximum_version = ssl.TLSVersion.TLSv1_2 if version == "TLSv1.2" else ssl.TLSVersion.TLSv1_3
    certificate = Certificate(build(GOOD, NOW))
    with serving(certificate) as port:
        assert shake(port, client, sni) == (serial(GOOD), version)
        certificate.use(build(OTHER, NOW))
        assert shake(port, client, sni) == (serial(OTHER), version)


def test_the_minimum_version_holds_after_a_swap() -> None:
    """A client that has TLS 1.2 at most is refused by a 1.3 server, before and after."""
    client = ssl.create_default_context(cadata=CA.certificate.decode())
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    certificate = Certificate(build(GOOD, NOW, "1.3"))
    with serving(certificate) as port:
        for pair in (GOOD, OTHER):
            certificate.use(build(pair, NOW, "1.3"))
            with pytest.raises((ssl.SSLError, ConnectionError)):
                shake(port, client)


def test_the_ca_of_clients_is_swapped_too(tmp_path: Path) -> None:
    """After a reload with another client CA, clients of the new one get in and those of the old one do not."""
    old, new = pki.new_ca(NOW), pki.new_ca(NOW)
    of_old, of_new = identity(old, "a", tmp_path / "old.pem"), identity(new, "a", tmp_path / "new.pem")
    certificate = Certificate(build(Pem(GOOD.certificate, GOOD.key, old.certificate), NOW))
    with serving(certificate) as port:
        assert (admitted(port, of_old), admitted(port, of_new)) == (True, False)
        certificate.use(build(Pem(GOOD.certificate, GOOD.key, new.certificate), NOW))
        assert (admitted(port, of_old), admitted(port, of_new)) == (False, True)


def admitted(port: int, client_file: Path) -> bool:
    """Whether this client is let in. TLS 1.2, where the client learns it from the handshake itself."""
    client = ssl.create_default_context(cadata=CA.certificate.decode())
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.load_cert_chain(client_file)
    try:
        shake(port, client)
    except (ssl.SSLError, ConnectionError):
        return False
    return True
