"""The serving certificate: PEM bytes -> a checked SSLContext, and its replacement while connections arrive.

Never `load_cert_chain` into a context in use: a mismatched pair leaves it unable to complete any handshake.
A new context is built separately and checked, and each connection gets the newest.

This module does not care who wrote the files, and reads no clock.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import pairwise

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from webhook.errors import BadPair

MINIMUM = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: forward secrecy and authenticated encryption only. TLS 1.3 has no others."""


class Pem(msgspec.Struct, frozen=True):
    """The contents of the files, as read at one time."""

    certificate: bytes
    key: bytes
    client_ca: bytes = b""

    def __repr__(self) -> str:
        return f"Pem({len(self.certificate)} bytes, key, {len(self.client_ca)} bytes)"


class Pair(msgspec.Struct, frozen=True):
    """A certificate that can serve, and some facts about it."""

    context: ssl.SSLContext
    not_after: datetime
    sha256: str  # of the leaf, in hex
    names: tuple[str, ...]


def build(pem: Pem, now: datetime, minimum: str = "1.2") -> Pair:
    """A context that serves `pem`; raises `BadPair` if it cannot be served at `now`."""
    leaf, names = _checked(pem, now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = MINIMUM[minimum]
    context.set_ciphers(CIPHERS)
    # The API server speaks HTTP/1.1 to webhooks behind a Service; if it offers h2 as well, ALPN settles it.
    context.set_alpn_protocols(["http/1.1"])
    # It also resumes no sessions, so tickets would be wasted work.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    try:
        with _as_file(pem.certificate + b"\n" + pem.key) as path:
            context.load_cert_chain(path)
        if pem.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=pem.client_ca.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise BadPair(f"OpenSSL refuses the files: {error}") from error
    return Pair(context, leaf.not_valid_after_utc, leaf.fingerprint(hashes.SHA256()).hex(), names)


def names_of(peer: dict[str, object]) -> frozenset[str]:
    """Common names and DNS names in a verified client certificate, as returned by `SSLSocket.getpeercert`."""
    subject = peer.get("subject", ())
    alternative = peer.get("subjectAltName", ())
    assert isinstance(subject, tuple)
    assert isinstance(alternative, tuple)
    common = {value for parts in subject for key, value in parts if key == "commonName"}
    return frozenset(common | {value for kind, value in alternative if kind == "DNS"})


class Certificate:
    """The one mutable object here: the certificate for new connections."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        return self.pair.context

    def use(self, pair: Pair) -> None:
        """Serve `pair` from the next connection on; open ones keep theirs."""
        self.pair = pair


def _checked(pem: Pem, now: datetime) -> tuple[x509.Certificate, tuple[str, ...]]:
    try:
        chain = x509.load_pem_x509_certificates(pem.certificate)
    except ValueError as error:
        raise BadPair("the certificate file contains no readable PEM certificate") from error
    leaf = chain[0]
    if leaf.public_key() != _public_key(pem.key):
        raise BadPair("the key file does not belong to the certificate")
    if leaf.not_valid_after_utc <= now:
        raise BadPair(f"the certificate expired {leaf.not_valid_after_utc.isoformat()}")
    if leaf.not_valid_before_utc > now:
        raise BadPair(f"the certificate is not valid before {leaf.not_valid_before_utc.isoformat()}")
    for number, (child, parent) in enumerate(pairwise(chain), start=1):
        if not _issued(child, parent):
            raise BadPair(f"certificate {number + 1} in the file did not issue certificate {number}")
    return leaf, _server_names(leaf)


def _public_key(key: bytes) -> object:
    try:
        return load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError) as error:
        raise BadPair("the key file contains no readable, unencrypted PEM private key") from error


def _issued(child: x509.Certificate, parent: x509.Certificate) -> bool:
    try:
        child.verify_directly_issued_by(parent)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _server_names(leaf: x509.Certificate) -> tuple[str, ...]:
    """The leaf's DNS names and addresses. Go clients ignore the common name, so it needs one of these."""
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise BadPair("the certificate has no subjectAltName, and API servers ignore other names") from None
    dns: list[str] = names.get_values_for_type(x509.DNSName)
    return (*dns, *map(str, names.get_values_for_type(x509.IPAddress)))


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A file with exactly the bytes that were checked; Python's OpenSSL loader accepts only paths.

    In memory if the system supports it: the Pod's file system is read-only, and the key must not be on disk.
    """
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("accel-tls")
        path = f"/proc/self/fd/{handle}"
    else:
        handle, path = tempfile.mkstemp()
    try:
        os.write(handle, content)
        yield path
    finally:
        os.close(handle)
        if not path.startswith("/proc/"):
            with suppress(FileNotFoundError):
                os.unlink(path)
