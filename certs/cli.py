"""The command group `accel certs`: run, issue, show, rotate. Parses and prints; the other modules do the work."""

import base64
import json
import os
import signal
import ssl
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
import yaml
from rich.console import Console
from rich.table import Table

from certs import api, directory, duration, inventory, metrics, pki
from certs.inventory import Row
from certs.keyring import stamp
from certs.pki import KeyPair
from certs.rotation import Policy, View
from certs.run import Loop
from certs.store import Store

certs_app = typer.Typer(
    name="certs",
    help="The webhook's certificates: manage them in a cluster, create them offline, inspect them.",
    no_args_is_help=True,
    add_completion=False,
)

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def _duration(flag: str, text: str) -> timedelta:
    try:
        return duration.parse(text)
    except ValueError as error:
        raise _fail(f"{flag}: {error}") from None


def _option(flag: str, text: str, **more: Any) -> Any:
    """An option that an environment variable can set too: --leaf-lifetime is ACCEL_LEAF_LIFETIME."""
    return typer.Option(flag, envvar=f"ACCEL_{flag.strip('-').replace('-', '_').upper()}", help=text, **more)


Namespace = Annotated[str, _option("--namespace", "Namespace of the release.")]
SecretName = Annotated[str, _option("--secret", "Name of the CA Secret.")]
ServiceName = Annotated[str, _option("--service", "Name of the Service in front of the webhook.")]
ConfigurationName = Annotated[str, _option("--webhook-config", "Name of the MutatingWebhookConfiguration.")]
UserKubeconfig = Annotated[str, _option("--kubeconfig", "Kubeconfig file; default: KUBECONFIG or ~/.kube/config.")]

NAMESPACE, NAME, SECRET = "accel-system", "accel-injector", "accel-injector-ca"


@certs_app.command()
def run(
    namespace: Namespace = NAMESPACE,
    secret: SecretName = SECRET,
    service: ServiceName = NAME,
    webhook_config: ConfigurationName = NAME,
    folder: Annotated[Path, _option("--dir", "Directory for tls.crt, tls.key, ca.crt and state.json.")] = Path(
        "/etc/accel/tls"
    ),
    leaf_lifetime: Annotated[
        str, _option("--leaf-lifetime", "Lifetime of a serving certificate.", metavar="DURATION")
    ] = "7d",
    ca_lifetime: Annotated[str, _option("--ca-lifetime", "Lifetime of a CA.", metavar="DURATION")] = "365d",
    overlap: Annotated[
        str, _option("--overlap", "How long a new CA is published before it signs.", metavar="DURATION")
    ] = "2m",
    poll: Annotated[
        str, _option("--poll", "Poll at least this often; changes are seen at once.", metavar="DURATION")
    ] = "30s",
    kubeconfig: Annotated[str, _option("--kubeconfig", "Kubeconfig file; default: the Pod's service account.")] = "",
    service_account_dir: Annotated[
        Path, _option("--service-account-dir", "Where the Pod's token and ca.crt are mounted.")
    ] = Path(api.SERVICE_ACCOUNT_DIR),
    metrics_bind: Annotated[
        str, _option("--metrics-bind", "[HOST]:PORT for /metrics and /healthz over plain HTTP.")
    ] = "",
    log_level: Annotated[str, _option("--log-level", "debug, info, warning or error.")] = "info",
) -> None:
    """Manage a replica's certificate: fill the CA Secret, caBundle and --dir, and rotate without a lost call."""
    signal.signal(signal.SIGTERM, _leave)
    log = _log(log_level)
    policy = _policy(
        pki.service_names(service, namespace),
        _duration("--leaf-lifetime", leaf_lifetime),
        _duration("--ca-lifetime", ca_lifetime),
        _duration("--overlap", overlap),
    )
    client = _connect(kubeconfig or None, service_account_dir)
    loop = Loop(Store(client, namespace, secret, webhook_config), policy, folder, _duration("--poll", poll), log)
    if metrics_bind:
        _serve_metrics(metrics_bind, loop)
    log.info("started", secret=f"{namespace}/{secret}", webhook_config=webhook_config, names=policy.names)
    loop.run()


@certs_app.command()
def issue(
    service: ServiceName = NAME,
    namespace: Namespace = NAMESPACE,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Write ca.crt, ca.key, tls.crt, tls.key here; reuse a CA found there.")
    ] = None,
    secret: Annotated[str, typer.Option(help="Print a Secret of type kubernetes.io/tls with this name.")] = "",
    name: Annotated[
        list[str] | None, typer.Option(help="An additional DNS name or IP address; may be repeated.")
    ] = None,
    leaf_lifetime: Annotated[
        str, _option("--leaf-lifetime", "Lifetime of the certificate.", metavar="DURATION")
    ] = "365d",
    ca_lifetime: Annotated[str, _option("--ca-lifetime", "Lifetime of a new CA.", metavar="DURATION")] = "3650d",
) -> None:
    """Create a CA and a serving certificate offline, for the chart's tls.mode=existing-secret."""
    if folder is None and not secret:
        raise _fail("give --dir DIR to write files, --secret NAME to print a Secret, or both")
    now = datetime.now(UTC)
    kept = _kept_ca(folder, now)
    ca = kept or pki.new_ca(now, _duration("--ca-lifetime", ca_lifetime))
    names = [*pki.service_names(service, namespace), *(name or [])]
    leaf = pki.issue(ca, names, now, _duration("--leaf-lifetime", leaf_lifetime))
    if folder:
        _write_files(folder, ca, leaf)
    if secret:
        sys.stdout.write(_secret(secret, namespace, ca, leaf))
    _say_next(folder, kept is not None, leaf)


@certs_app.command()
def show(
    namespace: Namespace = NAMESPACE,
    secret: SecretName = SECRET,
    webhook_config: ConfigurationName = NAME,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Inspect a directory that `run` or `issue` wrote.")
    ] = None,
    server: Annotated[str, typer.Option(help="HOST:PORT: inspect what an endpoint serves.")] = "",
    kubeconfig: UserKubeconfig = "",
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """Show which CAs sign and are trusted, and until when; exit code 1 if one has expired or an entry lacks one."""
    now = datetime.now(UTC)
    if folder:
        rows = _rows_of_directory(folder, now)
    elif server:
        rows = inventory.of_leaf(_served(server), None, now)
    else:
        reading = _read(_store(kubeconfig, namespace, secret, webhook_config))
        rows = inventory.of_keyring(reading.keyring, now)
        rows += inventory.of_entries(View(reading.keyring, reading.entries))
    _print_rows(rows, output, now)
    if not all(row.good for row in rows):
        raise typer.Exit(1)


@certs_app.command()
def rotate(
    namespace: Namespace = NAMESPACE,
    secret: SecretName = SECRET,
    webhook_config: ConfigurationName = NAME,
    kubeconfig: UserKubeconfig = "",
    distrust: Annotated[
        bool,
        typer.Option("--distrust", help="The old key has leaked: stop trusting it as soon as replicas have switched."),
    ] = False,
) -> None:
    """Request a new CA now, before two thirds of its lifetime; the replicas do the rest, and no call fails."""
    store = _store(kubeconfig, namespace, secret, webhook_config)
    reading = _read(store)
    ring = reading.keyring
    if ring.signing is None and ring.upcoming:
        raise _fail("the first CA signs after the overlap; there is nothing to rotate before that")
    if ring.signing is None:
        raise _fail(f"Secret {namespace}/{secret} has no signing CA: is `accel certs run` running?")
    if ring.upcoming:
        raise _fail("a rotation is already in progress; see `accel certs show`")
    try:
        store.write_keyring(reading, replace(ring, wanted="distrust" if distrust else "now"))
    except api.ApiError as error:
        raise _fail(str(error)) from None
    old = pki.name_of(ring.signing.certificate)
    typer.echo(f"Requested. A new CA will be published next to {old} in every webhook entry;")
    typer.echo("after the overlap (2m by default) it signs, and every replica gets a new certificate from it.")
    end = "after one more overlap" if distrust else "five leaf lifetimes later (35d by default)"
    typer.echo(f"The key of {old} is deleted then, and its certificate leaves the bundle {end}.")
    typer.echo("Nothing needs to be restarted.")


def _leave(_number: int, _frame: object) -> None:
    """Exit at once, whatever the process is doing: every write is a single step, so nothing is left half done."""
    sys.exit(0)


def _log(level: str) -> Any:
    if level.lower() not in LEVELS:
        raise _fail(f"--log-level {level!r}: valid: {', '.join(LEVELS)}")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level.lower()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    return structlog.get_logger()


def _policy(names: tuple[str, ...], leaf: timedelta, ca: timedelta, overlap: timedelta) -> Policy:
    try:
        return Policy(names, leaf, ca, overlap)
    except ValueError as error:
        raise _fail(str(error)) from None


def _connect(kubeconfig: str | None, service_account: Path) -> api.Api:
    try:
        return api.connect(kubeconfig, str(service_account))
    except api.NoCredentials as error:
        raise _fail(f"cannot reach the API server: {error}") from None


def _store(kubeconfig: str, namespace: str, secret: str, webhook_config: str) -> Store:
    return Store(_connect(kubeconfig, Path(api.SERVICE_ACCOUNT_DIR)), namespace, secret, webhook_config)


def _read(store: Store) -> Any:
    try:
        return store.read()
    except api.ApiError as error:
        raise _fail(str(error)) from None


def _serve_metrics(bind: str, loop: Loop) -> None:
    host, _, port = bind.rpartition(":")
    try:
        metrics.serve(host.strip("[]"), int(port), loop.metrics, loop.alive)
    except (OSError, ValueError, OverflowError) as error:
        raise _fail(f"--metrics-bind {bind!r}: {error}; valid: [HOST]:PORT, such as :8081") from None


def _kept_ca(folder: Path | None, now: datetime) -> KeyPair | None:
    """The CA of an earlier run, so that a renewal does not change the caBundle."""
    if folder is None or not (folder / "ca.key").exists():
        return None
    try:
        ca = KeyPair((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes())
    except OSError as error:
        raise _fail(f"{folder}: {error.strerror}") from None
    if not pki.is_ours(ca.certificate) or not pki.matches(ca):
        raise _fail(f"{folder}: ca.crt and ca.key are not a pair that this command created; use another --dir")
    if now >= pki.not_after(ca.certificate):
        raise _fail(f"{folder}/ca.crt expired {stamp(pki.not_after(ca.certificate))}; use another --dir")
    return ca


def _write_files(folder: Path, ca: KeyPair, leaf: KeyPair) -> None:
    files = {"ca.crt": ca.certificate, "ca.key": ca.key, "tls.crt": leaf.certificate, "tls.key": leaf.key}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = folder / name
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if name.endswith(".key") else 0o644)
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(content)
    except OSError as error:
        raise _fail(f"{folder}: {error.strerror}") from None


def _secret(name: str, namespace: str, ca: KeyPair, leaf: KeyPair) -> str:
    values = {"ca.crt": ca.certificate, "tls.crt": leaf.certificate, "tls.key": leaf.key}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in values.items()},
    }
    return str(yaml.safe_dump(secret, sort_keys=False, width=4096))


def _say_next(folder: Path | None, kept: bool, leaf: KeyPair) -> None:
    until = stamp(pki.not_after(leaf.certificate))
    typer.echo(f"A certificate valid until {until}, from {'the existing CA' if kept else 'a new CA'}.", err=True)
    if folder:
        typer.echo(
            "For the chart: --set tls.mode=existing-secret --set tls.existingSecret=NAME "
            f"--set-file tls.caBundle={folder / 'ca.crt'}",
            err=True,
        )
    else:
        typer.echo("The CA's key is not kept: use --dir to be able to renew without a new caBundle.", err=True)


def _rows_of_directory(folder: Path, now: datetime) -> list[Row]:
    try:
        leaf = (folder / directory.CERTIFICATE).read_bytes()
        bundle = (folder / directory.BUNDLE).read_bytes()
    except OSError as error:
        raise _fail(f"{error.filename}: {error.strerror}") from None
    return inventory.of_leaf(leaf, bundle, now) + inventory.of_bundle(bundle, now)


def _served(server: str) -> bytes:
    """The certificate that an endpoint presents, unverified."""
    host, _, port = server.rpartition(":")
    try:
        return ssl.get_server_certificate((host.strip("[]"), int(port)), timeout=10).encode()
    except (OSError, ValueError, OverflowError) as error:
        raise _fail(f"--server {server!r}: {error}") from None


def _print_rows(rows: list[Row], output: str, now: datetime) -> None:
    if output == "json":
        typer.echo(json.dumps([inventory.as_object(row) for row in rows], indent=2))
        return
    if output != "table":
        raise _fail(f"-o {output!r}: valid: table, json")
    table = Table(box=None, pad_edge=False)
    for heading in ("WHAT", "WHO", "UNTIL", "LEFT", "NOTE"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("WHAT", "UNTIL", "LEFT"))
    for row in rows:
        left = duration.spell(datetime.fromisoformat(row.until) - now) if row.until and row.good else ""
        table.add_row(row.what, row.subject, row.until, left, row.note, style=None if row.good else "red")
    Console().print(table)


def _fail(message: str) -> typer.Exit:
    """Print an error; exit code 1."""
    typer.echo(f"accel certs: {message}", err=True)
    return typer.Exit(1)
