"""What is written to the Secret and the webhook configuration, and what happens when nothing can be written.

Reading, racing and repairing on a real API server is in tests/cluster/test_certs.py.
"""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import structlog
import yaml
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import directory, inventory, keyring, pki, rotation, state, store
from certs.api import Api, NoCredentials, Unreachable, connect
from certs.keyring import Keyring
from certs.rotation import Policy, View
from certs.run import Loop
from certs.store import Reading, Store

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
CA = pki.new_ca(NOW)
DER = pki.parse(CA.certificate).public_bytes(Encoding.DER)
NAMES = pki.service_names("accel-injector", "accel-system")


def encoded(pem: bytes) -> str:
    """As the API carries bytes."""
    return base64.b64encode(pem).decode()


def configuration(*bundles: str | None) -> dict[str, Any]:
    """A webhook configuration with an entry per given caBundle."""
    hooks = [
        {
            "name": f"{number}.accel.io",
            "clientConfig": {"service": {}} | ({"caBundle": text} if text is not None else {}),
        }
        for number, text in enumerate(bundles)
    ]
    return {"metadata": {"name": "accel-injector", "resourceVersion": "7"}, "webhooks": hooks}


def test_entries() -> None:
    """Each entry's caBundle is decoded; one that is absent, empty or no base64 counts as empty."""
    found = store.entries(configuration(encoded(b"pem"), None, "", "!!"))

    assert found == {"0.accel.io": b"pem", "1.accel.io": b"", "2.accel.io": b"", "3.accel.io": b""}
    assert store.entries({"metadata": {}}) == {}


def test_the_patch_fills_what_differs_and_nothing_else() -> None:
    """Only entries with another bundle are written, over exactly the version that was read."""
    before = configuration(encoded(b"new"), None, encoded(b"old"))
    reading = Reading(Keyring(), store.entries(before), {}, "7")

    patch = store.bundle_patch(reading, b"new")

    assert [operation["path"] for operation in patch] == [
        "/metadata/resourceVersion",
        "/webhooks/1/clientConfig/caBundle",
        "/webhooks/2/clientConfig/caBundle",
    ]
    assert jsonpatch.apply_patch(before, patch) == configuration(*[encoded(b"new")] * 3)
    moved = configuration(None, None, None)
    moved["metadata"]["resourceVersion"] = "8"
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(moved, patch)


def test_the_secret_keeps_its_lock_and_what_others_put_there() -> None:
    """Our keys are replaced as a whole, everybody else's stay, and a wish that was met is taken away."""
    ring = Keyring(signing=pki.new_ca(NOW))
    stale = keyring.to_secret(Keyring(signing=pki.new_ca(NOW), upcoming=pki.new_ca(NOW)))
    secret = {
        "metadata": {
            "resourceVersion": "3",
            "labels": {"a": "b"},
            "annotations": {"c": "d", "accel.io/rotate-ca": "now"},
        },
        "type": "Opaque",
        "data": {**stale, "theirs": "eA=="},
    }

    written = store.secret_with(secret, ring)

    assert written["data"] == {"theirs": "eA==", **keyring.to_secret(ring)}
    assert written["metadata"] == {"resourceVersion": "3", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    asked = store.secret_with({"metadata": {}}, Keyring(wanted="distrust"))
    assert asked["metadata"]["annotations"] == {"accel.io/rotate-ca": "distrust"}
    assert keyring.from_secret(asked["data"], asked["metadata"]["annotations"]).wanted == "distrust"


# state.json


def test_state_of_a_replica() -> None:
    """Ready means that every entry trusts the CA of our own leaf, whatever else it trusts."""
    ca, other = pki.new_ca(NOW), pki.new_ca(NOW)
    leaf = pki.issue(ca, NAMES, NOW)
    ring = Keyring(signing=ca, upcoming=other, rotations=4)
    held = {"a": ca.certificate, "b": other.certificate + ca.certificate}

    described = state.describe(View(ring, held, leaf), NOW)
    assert (described.ready, described.problem, described.rotating, described.rotations) == (True, "", True, 4)
    assert described.leafAuthority == pki.fingerprint(ca.certificate)
    assert described.leafNotAfter == "2026-03-08T12:00:00Z"
    assert described.authorityNotAfter == "2027-03-01T12:00:00Z"

    lacking = state.describe(View(ring, {**held, "c": other.certificate, "d": b"junk"}, leaf), NOW)
    assert lacking.ready is False
    assert lacking.entries == {"a": True, "b": True, "c": False, "d": False}
    assert lacking.problem == "caBundle of c, d does not contain the CA of our certificate"
    assert state.describe(View(ring, {}, leaf), NOW).ready is False
    assert json.loads(state.to_json(described))["bundle"] == [pki.fingerprint(c) for c in ring.certificates()]


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(DER) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_mangled_certificate_stops_nobody(edits: list[tuple[int, int]]) -> None:
    """Whatever stands in the Secret or in caBundle, a replica can say what it sees and what to do next."""
    mangled = bytearray(DER)
    for place, value in edits:
        mangled[place] = value
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(mangled) + b"-----END CERTIFICATE-----\n"
    data = {"ca.crt": encoded(pem), "ca.key": encoded(CA.key), "retired.crt": encoded(pem)}
    leaf = pki.issue(CA, NAMES, NOW)

    for ring in (keyring.from_secret(data, {}), Keyring(), Keyring(signing=CA)):
        seen = View(ring, {"a": pem, "b": pem + CA.certificate}, leaf)
        assert state.to_json(state.describe(seen, NOW))
        assert rotation.decide(seen, NOW, Policy(NAMES))
        assert inventory.of_keyring(ring, NOW) + inventory.of_entries(seen) + inventory.of_bundle(pem, NOW)


# Without an API server


@pytest.fixture
def nowhere() -> Iterator[str]:
    """The address of a port that is bound, so that nothing else gets it, and refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def rude() -> Iterator[str]:
    """The address of a server that accepts every connection, sends something that is not TLS, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def api_at(address: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Api:
    """A client with a kubeconfig for that address, past any proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    path = folder / "kubeconfig"
    cluster = {"server": f"https://{address}", "insecure-skip-tls-verify": True}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(config))
    return connect(str(path))


@pytest.mark.parametrize("server", ["nowhere", "rude"])
def test_no_answer_is_unreachable(
    server: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused connection and one that breaks off are one line that says which request failed."""
    api = api_at(request.getfixturevalue(server), tmp_path, monkeypatch)

    for ask in (lambda: api.get("/api/v1/x"), lambda: api.watch("/api/v1/x", "y", print)):
        with pytest.raises(Unreachable, match=r"^GET /api/v1/x: [^\n]+$"):
            ask()


def test_a_pass_without_an_api_server(nowhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes that fail wait ever longer but no longer than the poll, say why in the state, and raise nothing."""
    made = Store(api_at(nowhere, tmp_path, monkeypatch), "accel-system", "ca", "accel-injector")
    folder = tmp_path / "tls"
    loop = Loop(made, Policy(NAMES), folder, timedelta(seconds=8), structlog.testing.CapturingLogger())

    waits = [loop.turn() for _ in range(8)]

    assert max(waits[:2]) < timedelta(seconds=1)
    assert all(wait <= timedelta(seconds=8) for wait in waits)
    assert waits[-1] == timedelta(seconds=8)
    described = json.loads((folder / "state.json").read_text())
    assert described["ready"] is False
    assert "Connection refused" in described["problem"]
    assert loop.alive()


def test_a_leaf_from_before_is_left_alone(nowhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart without an API server the directory stays byte for byte as it was."""
    leaf = pki.issue(pki.new_ca(NOW), NAMES, NOW)
    folder = tmp_path / "tls"
    directory.write(folder, {"tls.crt": leaf.certificate, "tls.key": leaf.key, "state.json": b'{"ready": true}\n'})
    made = Store(api_at(nowhere, tmp_path, monkeypatch), "accel-system", "ca", "accel-injector")
    loop = Loop(made, Policy(NAMES), folder, timedelta(seconds=8), structlog.testing.CapturingLogger())

    loop.turn()

    assert (folder / "state.json").read_bytes() == b'{"ready": true}\n'
    assert directory.leaf(folder) == leaf


def test_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a cluster and without a kubeconfig the error says what was tried."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(NoCredentials, match="the Pod's service account in /nowhere: Service host/port is not set"):
        connect(None, "/nowhere")
    with pytest.raises(NoCredentials, match=f"kubeconfig {tmp_path}/absent"):
        connect(str(tmp_path / "absent"))
