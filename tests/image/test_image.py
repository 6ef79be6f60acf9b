"""The image, built and started without a container engine: `make image-test`.

buildah builds the Dockerfile in a chroot, on a base that debootstrap makes of Debian's packages (or on $BASE, an image
with a C compiler that buildah can reach); both need root. What a runtime would enforce, such as a read-only root, is
not enforced here.
"""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.binaries import cache
from tests.cluster.process import answers, free_port
from tests.support.checkout import ROOT
from webhook import __version__

SUITE = "bookworm"
PACKAGES = "python3,python3-venv,python3-pip,python3-dev,gcc,libc6-dev,ca-certificates"
NAME = "accel-injector:test"
LARGEST_MIB = 250  # of what we add to the base; half of it is the Kubernetes client
CERTIFICATES = "/etc/ssl/certs:/etc/ssl/certs:ro"  # a proxy in between may have a CA of its own


def missing() -> str:
    """Why the image cannot be built here; "" where it can."""
    if os.environ.get("ACCEL_IMAGE_TEST") != "1":
        return "takes minutes: make image-test"
    if os.geteuid() != 0:
        return "buildah's chroot isolation and debootstrap need root"
    needed = ["buildah"] if os.environ.get("BASE") else ["buildah", "debootstrap"]
    absent = [program for program in needed if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


pytestmark = pytest.mark.skipif(missing() != "", reason=missing())


@dataclass(frozen=True)
class Image:
    """The built image, and the storage that it is in."""

    storage: Path
    base: str

    def buildah(self, *args: str) -> str:
        """Run buildah; what it printed. The error says what it printed where it fails."""
        place = ["--root", str(self.storage / "root"), "--runroot", str(self.storage / "run")]
        command = ["buildah", *place, "--storage-driver", "vfs", *args]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def config(self) -> dict[str, Any]:
        found = json.loads(self.buildah("inspect", "--type", "image", NAME))
        config: dict[str, Any] = found["OCIv1"]["config"]
        return config

    def command(self, container: str, *command: str) -> list[str]:
        """What runs a command in a container, as the image's user."""
        place = ["--root", str(self.storage / "root"), "--runroot", str(self.storage / "run")]
        return ["buildah", *place, "--storage-driver", "vfs", "run", "--isolation", "chroot", container, "--", *command]


@dataclass(frozen=True)
class Container:
    """A container of the image; each costs a copy of the whole file system, so one serves all tests."""

    image: Image
    name: str

    def run(self, *command: str) -> str:
        """What a command printed."""
        done = subprocess.run(self.image.command(self.name, *command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image of this checkout."""
    storage = tmp_path_factory.mktemp("image")
    image = Image(storage, os.environ.get("BASE") or "localhost/base")
    if not os.environ.get("BASE"):
        container = image.buildah("from", "scratch")
        image.buildah("copy", container, str(debian()), "/")
        image.buildah("commit", "--rm", container, "localhost/base")
    arguments = {"BASE": image.base, "BUILD_BASE": image.base, "VERSION": __version__, "REVISION": "tested"}
    given = [f"--build-arg={key}={value}" for key, value in arguments.items()]
    image.buildah("bud", "--isolation", "chroot", "--volume", CERTIFICATES, *given, "--tag", NAME, ".")
    return image


@pytest.fixture(scope="module")
def container(image: Image) -> Iterator[Container]:
    """A container of it."""
    name = image.buildah("from", NAME)
    yield Container(image, name)
    image.buildah("rm", name)


def debian() -> Path:
    """A file system of Debian with Python, made once."""
    made = cache() / f"image-base-{SUITE}-{hashlib.sha256(PACKAGES.encode()).hexdigest()[:8]}"
    if not made.exists():
        half = made.with_name(f"{made.name}.half")
        shutil.rmtree(half, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(half)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        half.rename(made)
    return made


def test_config(image: Image) -> None:
    """Not root, by number; the entry point that the chart's arguments are for; labels that say what it is."""
    config = image.config()
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["accel"]
    assert config["Cmd"] == ["serve"]
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    assert labels["title"] == "accel-injector"
    assert labels["version"] == __version__
    assert labels["revision"] == "tested"


def test_contents(container: Container) -> None:
    """The program and what it needs: no pip, no setuptools, no tests, and nothing that the user may write to."""
    assert container.run("accel", "--version") == f"accel {__version__}"
    assert container.run("id", "-u") == "65532"
    packages = container.run("sh", "-c", "ls /opt/accel/lib/python3*/site-packages").split()
    assert {"webhook", "certs", "kubernetes"} <= set(packages)
    assert not {"pip", "setuptools", "pytest", "mypy", "tests"} & set(packages)
    core = container.run("/opt/accel/bin/python", "-c", "from webhook.core import patch; print(patch.__file__)")
    assert core.endswith(".so"), "the core is not compiled"
    assert container.run("find", "/opt/accel", "-writable", "-not", "-type", "l") == ""


def test_size(container: Container) -> None:
    """What we add to the base is small."""
    kibibytes = int(container.run("du", "-sk", "/opt/accel").split()[0])
    print(f"{kibibytes / 1024:.0f} MiB on top of the base")
    assert kibibytes / 1024 < LARGEST_MIB


def test_serves(container: Container, tmp_path: Path) -> None:
    """Started with its own entry point and command, it becomes ready, answers a review, and ends in order."""
    config = container.image.config()
    port, metrics = free_port(), free_port()
    flags = [f"--port={port}", f"--metrics-port={metrics}", "--host=127.0.0.1", "--self-signed", "--lame-duck=0"]
    command = container.image.command(container.name, *config["Entrypoint"], *config["Cmd"], *flags)
    log = tmp_path / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 60
        while not answers(f"http://127.0.0.1:{metrics}/readyz"):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        assert review(port)["response"]["patchType"] == "JSONPatch"
    finally:
        # buildah passes no signal on; a container engine signals the program itself.
        os.kill(youngest(process.pid), signal.SIGTERM)
        process.wait(30)
    assert '"message":"stopped"' in log.read_text()


def youngest(pid: int) -> int:
    """The end of a process's line of children: what runs in the container. Each thread has children of its own."""
    lists = (path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    children = [int(child) for found in lists for child in found]
    return youngest(children[0]) if children else pid


def review(port: int) -> dict[str, Any]:
    """What the program answers to an annotated pod."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "annotations": {"accel.io/type": "tpu-v4-8"}},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/main"}]},
    }
    request = {
        "uid": "1",
        "operation": "CREATE",
        "namespace": "team-a",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": pod,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    trust = ssl.create_default_context()
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE  # it made its certificate a moment ago, for nobody but us
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=trust)
    with contextlib.closing(connection):
        connection.request("POST", "/mutate", json.dumps(body), {"Content-Type": "application/json"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    return answer
