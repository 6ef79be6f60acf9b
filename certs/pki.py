"""Certificates: create a CA, issue a leaf, say whether a leaf is valid at a given time.

Bytes (PEM) in, bytes out, and time is a parameter. It must not read a clock, a file or the network; its
only outside input is randomness for keys and serial numbers.

All keys are ECDSA P-256: an API server opens one TLS connection per call in flight and resumes none, so
the cost of a signature determines the cost of a burst. Profile: RFC 5280 section 4.2.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

# So that a verifier whose clock is behind ours does not see a certificate as "not yet valid".
BACKDATE = timedelta(hours=1)
CA_LIFETIME = timedelta(days=365)
LEAF_LIFETIME = timedelta(days=7)
ORGANIZATION = "accel-injector"

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM. The key never appears in a repr."""

    certificate: bytes
    key: bytes = field(repr=False)


def new_ca(now: datetime, lifetime: timedelta = CA_LIFETIME) -> KeyPair:
    """A new self-signed CA, valid from an hour before `now` until `now + lifetime`.

    Its name contains a part of its key's identifier. Two CAs thus never share a name, and a
    verifier that has both tries the right one first.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    name = _name(f"accel-injector-ca-{subject_key.digest.hex()[:12]}")
    builder = (
        _builder(name, name, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(subject_key, critical=False)
        .add_extension(_authority_key(subject_key), critical=False)
    )
    return _signed(builder, key, key)


def issue(ca: KeyPair, names: Iterable[str], now: datetime, lifetime: timedelta = LEAF_LIFETIME) -> KeyPair:
    """A new serving certificate from `ca` for DNS names or IP addresses, with its own key.

    It never outlives its CA: a leaf of an expired CA is refused, whatever its own dates.
    """
    alternatives = [_general_name(name) for name in names]
    if not alternatives:
        raise ValueError("a serving certificate needs at least one name")
    issuer = parse(ca.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + lifetime, issuer.not_valid_after_utc)
    builder = (
        _builder(_name("accel-injector"), issuer.subject, key.public_key(), now, until)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_authority_key(_subject_key(issuer)), critical=False)
    )
    return _signed(builder, key, _private_key(ca.key))


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names of a Service's serving certificate; the API server verifies the first.

    It dials `<service>.<namespace>.svc` (k8s.io/apiserver pkg/util/webhook/client.go); the others are for
    people and tools that connect directly.
    """
    host = f"{service}.{namespace}"
    return (f"{host}.svc", f"{host}.svc.cluster.local", host)


def valid_at(certificate: bytes, bundle: bytes, names: Iterable[str], at: datetime) -> bool:
    """Whether a verifier that trusts `bundle` (PEM) accepts `certificate` for all `names` at `at`.

    "Needs renewal" is the same question for a later time. Invalid arguments give False, never an error;
    so does an empty list of names.
    """
    names = list(names)
    if not names:
        return False
    try:
        leaf = parse(certificate)
        policy = PolicyBuilder().store(Store([parse(ca) for ca in split(bundle)])).time(at)
        for name in names:
            policy.build_server_verifier(_general_name(name)).verify(leaf, [])
    except (ValueError, VerificationError):
        return False
    return True


def matches(pair: KeyPair) -> bool:
    """Whether both parts of `pair` can be read and the key belongs to the certificate."""
    try:
        return _private_key(pair.key).public_key() == parse(pair.certificate).public_key()
    except ValueError:
        return False


def is_ours(certificate: bytes) -> bool:
    """Whether `certificate` looks like a CA that `new_ca` created."""
    try:
        parsed = parse(certificate)
        constraints = parsed.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    named = parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return constraints.ca and any(attribute.value == ORGANIZATION for attribute in named)


@lru_cache(maxsize=256)
def issued_by(certificate: bytes, ca: bytes) -> bool:
    """Whether `ca` signed `certificate`; False if either cannot be read. Ignores time."""
    try:
        parse(certificate).verify_directly_issued_by(parse(ca))
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


@lru_cache(maxsize=256)
def parse(certificate: bytes) -> x509.Certificate:
    """The first certificate of a PEM text, completely parsed. ValueError if there is none that we understand.

    The library parses the parts of a certificate lazily; here all of them are accessed, so that the result
    cannot fail later.
    """
    try:
        parsed = x509.load_pem_x509_certificate(certificate)
        _ = (parsed.subject, parsed.issuer, parsed.extensions, parsed.public_key(), parsed.signature_hash_algorithm)
        _ = (parsed.not_valid_before_utc, parsed.not_valid_after_utc)
    except (TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension) as error:
        raise ValueError(str(error)) from error
    return parsed


def split(bundle: bytes) -> list[bytes]:
    """The certificates of a PEM bundle, each as normalized PEM. ValueError if one cannot be read."""
    if b"-----BEGIN" not in bundle:
        return []
    try:
        found = [certificate.public_bytes(_PEM) for certificate in x509.load_pem_x509_certificates(bundle)]
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error
    for certificate in found:
        parse(certificate)
    return found


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of the certificate in lower-case hex: that of `openssl x509 -fingerprint -sha256`, without colons."""
    return parse(certificate).fingerprint(hashes.SHA256()).hex()


def name_of(certificate: bytes) -> str:
    """The common name, which is unique for each of our CAs."""
    names = parse(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


@lru_cache(maxsize=256)
def names_of(certificate: bytes) -> frozenset[str]:
    """The DNS names and IP addresses that a certificate is for."""
    try:
        names = parse(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


@lru_cache(maxsize=256)
def not_before(certificate: bytes) -> datetime:
    """The start of validity (UTC)."""
    return parse(certificate).not_valid_before_utc


@lru_cache(maxsize=256)
def not_after(certificate: bytes) -> datetime:
    """The end of validity (UTC)."""
    return parse(certificate).not_valid_after_utc


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    """What a CA and a leaf have in common. X.509 times are whole seconds in UTC."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before((now - BACKDATE).astimezone(UTC).replace(microsecond=0))
        .not_valid_after(until.astimezone(UTC).replace(microsecond=0))
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> KeyPair:
    certificate = builder.sign(signer, hashes.SHA256())
    pem = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(_PEM), pem)


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general_name(name: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:  # an encrypted key
        raise ValueError("the private key is encrypted") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the private key is not an elliptic-curve key")
    return key


def _subject_key(certificate: x509.Certificate) -> x509.SubjectKeyIdentifier:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())


def _authority_key(identifier: x509.SubjectKeyIdentifier) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
