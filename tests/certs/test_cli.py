"""`accel certs` where no cluster is needed: issue, show of a directory or an endpoint, and what it refuses."""

import base64
import json
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from certs import duration, pki
from certs.cli import certs_app


def accel_certs(*arguments: str) -> Result:
    """Run the command; an error may show no traceback."""
    result = CliRunner().invoke(certs_app, arguments, env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_issue_into_a_directory(tmp_path: Path) -> None:
    """A CA and a certificate for the Service's names are written, with private keys, and the next step is printed."""
    folder = tmp_path / "tls"
    result = accel_certs("issue", f"--dir={folder}", "--service=inj", "--namespace=ns", "--name=10.0.0.1")

    assert result.exit_code == 0
    assert f"--set-file tls.caBundle={folder}/ca.crt" in result.stderr
    certificate, bundle = ((folder / name).read_bytes() for name in ("tls.crt", "ca.crt"))
    names = [*pki.service_names("inj", "ns"), "10.0.0.1"]
    assert pki.valid_at(certificate, bundle, names, datetime.now(UTC))
    assert pki.matches(pki.KeyPair(certificate, (folder / "tls.key").read_bytes()))
    assert {stat.S_IMODE((folder / f"{name}.key").stat().st_mode) for name in ("ca", "tls")} == {0o600}


def test_issue_again_keeps_the_ca(tmp_path: Path) -> None:
    """A renewal takes the CA that is there, so that no caBundle has to change."""
    accel_certs("issue", f"--dir={tmp_path}")
    before = {name: (tmp_path / name).read_bytes() for name in ("ca.crt", "ca.key", "tls.crt")}

    result = accel_certs("issue", f"--dir={tmp_path}", "--leaf-lifetime=90d")

    assert "from the existing CA" in result.stderr
    after = {name: (tmp_path / name).read_bytes() for name in before}
    assert {name: after[name] == before[name] for name in before} == {"ca.crt": True, "ca.key": True, "tls.crt": False}
    left = pki.not_after(after["tls.crt"]) - datetime.now(UTC)
    assert timedelta(days=89) < left <= timedelta(days=90)


def test_issue_as_a_secret() -> None:
    """Standard output is one Secret that kubectl can apply, without the CA's key."""
    result = accel_certs("issue", "--secret=webhook-tls", "--namespace=ns")

    secret = yaml.safe_load(result.stdout)
    assert (secret["kind"], secret["type"]) == ("Secret", "kubernetes.io/tls")
    assert secret["metadata"] == {"name": "webhook-tls", "namespace": "ns"}
    values = {key: base64.b64decode(value) for key, value in secret["data"].items()}
    assert sorted(values) == ["ca.crt", "tls.crt", "tls.key"]
    assert pki.issued_by(values["tls.crt"], values["ca.crt"])
    assert "key is not kept" in result.stderr


def test_issue_refuses_a_ca_it_did_not_make(tmp_path: Path) -> None:
    """Neither half of a pair nor an expired CA is taken for one."""
    ca, other = (pki.new_ca(datetime.now(UTC) - timedelta(days=400)) for _ in range(2))
    (tmp_path / "ca.crt").write_bytes(ca.certificate)
    (tmp_path / "ca.key").write_bytes(other.key)
    assert "not a pair that this command created" in accel_certs("issue", f"--dir={tmp_path}").stderr

    (tmp_path / "ca.key").write_bytes(ca.key)
    assert "ca.crt expired" in accel_certs("issue", f"--dir={tmp_path}").stderr
    assert not (tmp_path / "tls.crt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["issue"], "--dir DIR"),
        (["issue", "--secret=x", "--leaf-lifetime=soon"], "--leaf-lifetime: 'soon' is not a duration"),
        (["issue", "--dir=/dev/null/x"], "/dev/null/x"),
        (["run", "--kubeconfig=/no/such"], "cannot reach the API server: kubeconfig /no/such"),
        (["run", "--overlap=200d"], "must not exceed a third of the CA lifetime"),
        (["run", "--log-level=loud"], "debug, info, warning, error"),
        (["show", "--kubeconfig=/no/such"], "cannot reach the API server"),
        (["show", "--dir=/no/such"], "/no/such/tls.crt: No such file or directory"),
        (["show", "--server=nowhere"], "--server 'nowhere'"),
        (["rotate", "--kubeconfig=/no/such"], "cannot reach the API server"),
    ],
)
def test_errors_are_one_sentence(arguments: list[str], message: str) -> None:
    """What cannot be done ends with exit code 1 and one line that names the fault."""
    result = accel_certs(*arguments)

    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.startswith("accel certs: ")
    assert result.stderr.count("\n") == 1


def test_show_a_directory(tmp_path: Path) -> None:
    """The table shows names, expiry and remaining time; an expired or untrusted certificate gives exit code 1."""
    accel_certs("issue", f"--dir={tmp_path}", "--leaf-lifetime=90d")
    result = accel_certs("show", f"--dir={tmp_path}")
    assert result.exit_code == 0
    assert "accel-injector.accel-system.svc" in result.stdout
    assert "89d 23h" in result.stdout

    old = datetime.now(UTC) - timedelta(days=8)
    ca = pki.new_ca(old)
    (tmp_path / "tls.crt").write_bytes(pki.issue(ca, ["localhost"], old).certificate)
    rows = accel_certs("show", f"--dir={tmp_path}", "-o", "json")
    assert rows.exit_code == 1
    assert [row["note"].split(";")[0] for row in json.loads(rows.stdout)] == ["expired", ""]

    (tmp_path / "tls.crt").write_bytes(pki.issue(ca, ["localhost"], datetime.now(UTC)).certificate)
    strange = accel_certs("show", f"--dir={tmp_path}", "-o", "json")
    assert "not trusted by the bundle" in json.loads(strange.stdout)[0]["note"]


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """A TLS server on loopback with a certificate of ours."""
    accel_certs("issue", f"--dir={tmp_path}", "--name=localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_show_an_endpoint(endpoint: str) -> None:
    """The certificate that a server presents is shown, although it is not trusted here."""
    rows = json.loads(accel_certs("show", f"--server={endpoint}", "-o", "json").stdout)

    assert len(rows) == 1
    assert "localhost" in rows[0]["subject"]
    assert rows[0]["note"].startswith("by accel-injector-ca-")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("2m", 120), ("168h", 604800), ("7d", 604800), ("1h30m", 5400), ("0.5s", 0.5)],
)
def test_durations(text: str, seconds: float) -> None:
    """Durations are read as people write them."""
    assert duration.parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 s", "1w", "2m junk", "99999999999999d"])
def test_what_is_no_duration(text: str) -> None:
    """Anything else is an error that shows what was written."""
    with pytest.raises(ValueError, match=text or "''"):
        duration.parse(text)


@pytest.mark.parametrize(
    ("length", "spelled"),
    [
        (timedelta(days=6, hours=23, minutes=59), "6d 23h"),
        (timedelta(hours=2), "2h"),
        (timedelta(minutes=-3, seconds=-5), "3m 5s"),
        (timedelta(0), "0s"),
    ],
)
def test_spelling(length: timedelta, spelled: str) -> None:
    """Two units are enough for people."""
    assert duration.spell(length) == spelled
