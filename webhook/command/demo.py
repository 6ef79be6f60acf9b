"""`accel demo`: the webhook on loopback, called as an API server calls it, and the resulting manifests.

Everything is real: the HTTPS server, its certificate, AdmissionReview over TLS, the JSON Patch. Only the API server
is simulated by this client.
"""

import http.client
import json
import shutil
import ssl
import statistics
import sys
import time
from base64 import b64decode
from collections.abc import Sequence
from http import HTTPStatus
from importlib import resources
from typing import Any

import msgspec
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from webhook.command import diff, terminal
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.yaml.nodes import Document
from webhook.errors import BadManifest
from webhook.manifest import inject
from webhook.manifest.edit import rewrite
from webhook.manifest.inject import Subject
from webhook.server.log import configure
from webhook.server.replica import Addresses, running
from webhook.server.settings import Settings

SHOWN = ("pod.yaml", "gpu-pod.yaml", "jobset-multislice.yaml")
"""Examples: one TPU host, GPUs, and the one that is longest by hand."""

AGAIN = 100
"""Calls that are measured: few enough to finish at once."""

TIMEOUT_SECONDS = 5
"""As in the chart's webhook configuration."""


class Asked(msgspec.Struct, frozen=True):
    """The webhook's response to one document."""

    response: dict[str, Any]
    milliseconds: float


class ApiServer:
    """The API server's part in admission: one persistent connection, one review per object."""

    def __init__(self, addresses: Addresses) -> None:
        trust = ssl.create_default_context(cadata=addresses.ca.decode())
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", addresses.port, timeout=TIMEOUT_SECONDS, context=trust
        )
        self._sent = 0
        self.last: dict[str, Any] | None = None

    def create(self, value: dict[str, Any]) -> Asked:
        """Send the review of an object's creation, and return the response."""
        self._sent, self.last = self._sent + 1, value
        body = json.dumps(_review(value, self._sent))
        begin = time.perf_counter()
        self._connection.request("POST", "/mutate?timeout=5s", body, {"Content-Type": "application/json"})
        reply = self._connection.getresponse()
        answer = reply.read()
        if reply.status != HTTPStatus.OK:
            text = answer[:200].decode(errors="replace").strip()
            raise BadManifest(f"the webhook rejects a review of {len(body):,} bytes: {reply.status} {text}")
        return Asked(json.loads(answer)["response"], (time.perf_counter() - begin) * 1000)

    def close(self) -> None:
        self._connection.close()


def _review(value: dict[str, Any], number: int) -> dict[str, Any]:
    group, _, version = value["apiVersion"].rpartition("/")
    workload = WORKLOADS.get((group, value["kind"]))
    kind = {"group": group, "version": version, "kind": value["kind"]}
    request = {
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "kind": kind,
        "requestKind": kind,
        "resource": {"group": group, "version": version, "resource": workload.plural if workload else ""},
        "name": _name(value),
        "namespace": "team-a",
        "operation": "CREATE",
        "userInfo": {"username": "demo"},
        "object": value,
        "oldObject": None,
        "dryRun": False,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _name(value: dict[str, Any]) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def run(files: Sequence[tuple[str, str]]) -> int:
    """Start, call, show, stop; returns the exit code. Without `files`: the project's own examples, and invalid ones."""
    begin = time.perf_counter()
    quiet = configure("error")
    settings = Settings(host="127.0.0.1", port=0, metrics_port=0, self_signed=True, log_level="error")
    with running(settings, log=quiet) as addresses:
        started = (time.perf_counter() - begin) * 1000
        _title(f"accel-injector answers on https://127.0.0.1:{addresses.port}/mutate, {started:.0f} ms after its start")
        server = ApiServer(addresses)
        try:
            for name, text in files or _examples():
                _each(server, name, text)
            last = server.last
            if not files:
                _variations(server)
            if last is not None:
                _timing(server, last)
        finally:
            server.close()
    _next_steps()
    return 0


def _examples() -> list[tuple[str, str]]:
    folder = resources.files("webhook") / "examples"
    return [(f"examples/{name}", (folder / name).read_text()) for name in SHOWN]


def _each(server: ApiServer, name: str, text: str) -> None:
    for _, document in inject.documents(text, name):
        for subject in inject.subjects(document, text, name):
            if subject.workload is not None and not subject.path:
                _show(name, subject, document, server.create(subject.value))


def _variations(server: ApiServer) -> None:
    """The first example, asking for more than one host, and for an unknown type."""
    _, text = _examples()[0]
    for type_name in ("tpu-v4-16", "tpu-v4-17"):
        _, document = next(inject.documents(text.replace("tpu-v4-8", type_name), "pod.yaml"))
        subject = inject.subjects(document)[0]
        answer = server.create(subject.value)
        _heading(f"The same Pod, asking for {type_name}", answer)
        _said(answer.response, subject)


def _show(name: str, subject: Subject, document: Document, answer: Asked) -> None:
    _heading(f"{name}: {subject.name}", answer)
    operations = json.loads(b64decode(answer.response.get("patch", "W10=")))
    rewritten = rewrite(document, operations)
    lines = list(diff.unified(name, document.text, rewritten.splices, context=len(document.text)))[3:]
    unchanged = (f"{line}\n" for line in document.text.removesuffix("\n").split("\n"))
    terminal.out().print(terminal.coloured(lines or unchanged, margin="  "), end="", soft_wrap=True)
    _said(answer.response, subject)


def _said(response: dict[str, Any], subject: Subject) -> None:
    """Print the response as kubectl would."""
    out = terminal.out()
    for warning in response.get("warnings", []):
        out.print(Text.assemble(("  Warning: ", "yellow"), warning), soft_wrap=True)
    if not response["allowed"]:
        first, *more = response["status"]["message"].splitlines()
        refused = f'admission webhook "{_entry(subject)}" denied the request: '
        out.print(Text.assemble(("  Error from server: ", "bold red"), refused, (first, "bold")), soft_wrap=True)
        for line in more:
            out.print(f"  {line}", soft_wrap=True)
    elif "patch" not in response:
        checked = subject.workload is not None and not subject.workload.patched and "accel.io/" in str(subject.value)
        out.print("  admitted as it is" + (": checked here, and its Pods are injected" if checked else ""))
    out.print()


def _entry(subject: Subject) -> str:
    """The entry of the chart's webhook configuration that sends such objects."""
    kind = subject.workload.name if subject.workload else ""
    return "pods.accel.io" if kind == "pod" else f"{kind}.workloads.accel.io"


def _title(text: str) -> None:
    terminal.out().print(Text(text, style="bold"), "\n", sep="", soft_wrap=True)


def _heading(text: str, answer: Asked) -> None:
    patched = json.loads(b64decode(answer.response.get("patch", "W10=")))
    title = Text.assemble((text, "bold cyan"), f"  {len(patched)} operations" if patched else "")
    out = terminal.out()
    out.print(Rule(title, align="left", style="dim"), width=min(out.width, 100))


def _timing(server: ApiServer, value: dict[str, Any]) -> None:
    """Print how long a response takes: one object, repeatedly."""
    took = statistics.median(server.create(value).milliseconds for _ in range(AGAIN))
    name = f"{value['kind']} {_name(value)}".strip()
    terminal.out().print(f"{AGAIN} more reviews of {name} over the same connection: {took:.2f} ms each (median).")


def _next_steps() -> None:
    out = terminal.out()
    what = "Green" if out.color_system else "Every line with +"
    out.print(Text.assemble(f"{what} was added by the webhook.\n\n", ("Next", "bold")))
    program = "accel" if shutil.which("accel") else sys.argv[0]
    steps = Table.grid(padding=(0, 3, 0, 0))
    for command, purpose in NEXT:
        steps.add_row(Text(f"  {program} {command}", "cyan"), purpose)
    terminal.show(steps)


NEXT = (
    ("inject -f examples/pod.yaml", "the same offline, for your own files too"),
    ("explain -f examples/pod.yaml", "why each line is there"),
    ("explain tpu-v4-16", "what a type means"),
    ("catalogue", "all types"),
)
