"""Where certificates are stored in a cluster: one Secret, and the caBundle of one MutatingWebhookConfiguration.

Only these two objects, by name: get, update and watch of the Secret; get, patch and watch of the configuration.
Neither is ever created here, and nothing here decides what to write.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from certs import keyring
from certs.api import Api, ApiError, Conflict, NotFound, Object
from certs.keyring import Keyring

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@dataclass(frozen=True, slots=True)
class Reading:
    """Both objects as read, with what is needed to overwrite exactly that version."""

    keyring: Keyring
    entries: dict[str, bytes]
    """caBundle (PEM) by entry, in the configuration's order; empty if there is no configuration."""
    secret: Object = field(repr=False)
    configuration_version: str


class Store:
    """The two objects of one release."""

    def __init__(self, api: Api, namespace: str, secret: str, configuration: str) -> None:
        self._api = api
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._secret = secret
        self._configuration = configuration

    @property
    def clock_ahead(self) -> timedelta:
        """By how much our clock is ahead of the API server's; zero if less than a minute."""
        return self._api.clock_ahead

    def read(self) -> Reading:
        """Read both. Raises ApiError; a missing configuration counts as one without entries.

        The configuration first: a bundle is then only ever written from a Secret that is newer than the entries it
        replaces, and a slow replica can never remove a new CA again.
        """
        try:
            configuration = self._api.get(f"{CONFIGURATIONS}/{self._configuration}")
        except NotFound:
            configuration = {"metadata": {"resourceVersion": ""}}
        secret = self._api.get(f"{self._secrets}/{self._secret}")
        ring = keyring.from_secret(secret.get("data") or {}, secret["metadata"].get("annotations") or {})
        return Reading(ring, entries(configuration), secret, configuration["metadata"]["resourceVersion"])

    def write_keyring(self, reading: Reading, ring: Keyring) -> None:
        """Overwrite the Secret that was read. Raises Conflict if another was first, else ApiError."""
        self._api.put(f"{self._secrets}/{self._secret}", secret_with(reading.secret, ring))

    def write_bundle(self, reading: Reading, bundle: bytes) -> None:
        """Put the bundle into every entry that has a different one. Raises Conflict or ApiError.

        By JSON Patch, not server-side apply: owning fields would make a Helm upgrade fail that removes an
        entry. The test of the resourceVersion ensures the entries' positions.
        """
        path = f"{CONFIGURATIONS}/{self._configuration}"
        try:
            self._api.patch(path, bundle_patch(reading, bundle))
        except ApiError as error:
            if error.status == 422 and self._moved(path, reading.configuration_version):
                raise Conflict(409, str(error)) from None
            raise

    def watch_secret(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever the Secret changes, until the watch ends. Raises ApiError."""
        self._api.watch(self._secrets, self._secret, changed)

    def watch_configuration(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever the configuration changes, until the watch ends. Raises ApiError."""
        self._api.watch(CONFIGURATIONS, self._configuration, changed)

    def _moved(self, path: str, version: str) -> bool:
        """A failed test gets the same 422 as an invalid bundle: find out which it was."""
        return bool(self._api.get(path)["metadata"]["resourceVersion"] != version)


def entries(configuration: Object) -> dict[str, bytes]:
    """Each entry's caBundle, decoded; empty if absent or invalid."""
    return {entry["name"]: _bundle(entry) for entry in configuration.get("webhooks") or []}


def bundle_patch(reading: Reading, bundle: bytes) -> list[Object]:
    """The JSON Patch that gives every entry `bundle`, and fails if the configuration has changed."""
    value = base64.b64encode(bundle).decode()
    lock = {"op": "test", "path": "/metadata/resourceVersion", "value": reading.configuration_version}
    fill = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": value}
        for index, found in enumerate(reading.entries.values())
        if found != bundle
    ]
    return [lock, *fill]


def secret_with(secret: Object, ring: Keyring) -> Object:
    """The Secret with this keyring as its data; everything else stays, including the resourceVersion."""
    metadata = {**secret["metadata"]}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != keyring.ROTATE_ANNOTATION}
    if ring.wanted:
        annotations[keyring.ROTATE_ANNOTATION] = ring.wanted
    kept = {key: value for key, value in (secret.get("data") or {}).items() if key not in keyring.KEYS}
    return {**secret, "metadata": {**metadata, "annotations": annotations}, "data": kept | keyring.to_secret(ring)}


def _bundle(entry: Object) -> bytes:
    try:
        return base64.b64decode((entry.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except binascii.Error:
        return b""
