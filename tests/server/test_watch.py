"""Files that change under a running replica: swapped as kubelets do, half written, mismatched, broken, gone."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs import directory, pki
from tests.support.recorder import Recorder
from webhook import load
from webhook.core.site import Site
from webhook.errors import BadConfig, Unusable
from webhook.server.health import Health
from webhook.server.metrics import Metrics
from webhook.server.watch import CertificateFiles, SiteFile, StateFile

NOW = datetime.now(UTC)
CA = pki.new_ca(NOW)


def pair() -> pki.KeyPair:
    return pki.issue(CA, ("localhost",), NOW)


class Files:
    """A watched certificate and everything that learns of it."""

    def __init__(self, folder: Path) -> None:
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        self.health, self.metrics, self.log = Health(), Metrics(), Recorder()
        paths = str(self.cert), str(self.key), ""
        self.watched = CertificateFiles(*paths, "1.2", self.health, self.metrics, self.log, lambda: NOW)

    def look(self, times: int = 1) -> str:
        """Look; the fingerprint of what is served then."""
        for _ in range(times):
            self.watched.poll()
        return self.watched.certificate.pair.sha256 if self.watched.certificate else ""

    @property
    def errors(self) -> list[str]:
        return [line["problem"] for line in self.log.lines if line["level"] == "error"]


def test_a_directory_swapped_as_kubelets_do(tmp_path: Path) -> None:
    """The `..data` symlink moves, the files' own paths do not, and the new pair is served."""
    files, first, second = Files(tmp_path), pair(), pair()
    directory.write(tmp_path, {"tls.crt": first.certificate, "tls.key": first.key})
    assert files.look() == pki.fingerprint(first.certificate)
    directory.write(tmp_path, {"tls.crt": second.certificate, "tls.key": second.key})
    assert files.look() == pki.fingerprint(second.certificate)
    assert files.metrics.certificate_reloads == {"success": 2, "failure": 0}
    assert files.health.certificate_not_after == pki.not_after(second.certificate)


def test_files_rewritten_in_place_one_after_the_other(tmp_path: Path) -> None:
    """Between the two writes the pair does not match: the old one stays in use, and so short a time is not reported."""
    files, first, second = Files(tmp_path), pair(), pair()
    files.cert.write_bytes(first.certificate)
    files.key.write_bytes(first.key)
    served = files.look()
    files.cert.write_bytes(second.certificate)
    assert files.look() == served
    files.key.write_bytes(second.key)
    assert files.look() == pki.fingerprint(second.certificate)
    assert files.errors == []


def test_a_mismatch_that_stays_is_refused_once(tmp_path: Path) -> None:
    """Logged and counted once, however often it is seen; the old pair stays in use until the files are valid again."""
    files, first, second = Files(tmp_path), pair(), pair()
    directory.write(tmp_path, {"tls.crt": first.certificate, "tls.key": first.key})
    served = files.look()
    directory.write(tmp_path, {"tls.crt": second.certificate, "tls.key": first.key})
    assert files.look(5) == served
    assert files.errors == ["the key file does not belong to the certificate"]
    assert files.metrics.certificate_reloads == {"success": 1, "failure": 1}
    directory.write(tmp_path, {"tls.crt": second.certificate, "tls.key": second.key})
    assert files.look() == pki.fingerprint(second.certificate)


@pytest.mark.parametrize("size", [0, 1, 100, 500])
def test_half_written_files(tmp_path: Path, size: int) -> None:
    """A certificate file that ends early is never served."""
    files, first, second = Files(tmp_path), pair(), pair()
    directory.write(tmp_path, {"tls.crt": first.certificate, "tls.key": first.key})
    served = files.look()
    directory.write(tmp_path, {"tls.crt": second.certificate[:size], "tls.key": second.key})
    assert files.look(2) == served
    assert len(files.errors) == 1


def test_files_that_go_away(tmp_path: Path) -> None:
    """What is served does not depend on the files staying there."""
    files, first = Files(tmp_path), pair()
    directory.write(tmp_path, {"tls.crt": first.certificate, "tls.key": first.key})
    served = files.look()
    files.key.unlink()
    assert files.look(3) == served
    (error,) = files.errors
    assert "tls.key" in error


def test_files_that_come_late(tmp_path: Path) -> None:
    """The process that writes them may start after us: until then there is no certificate."""
    files, first = Files(tmp_path), pair()
    assert files.look() == ""
    assert "no usable certificate yet" in files.health.problems(NOW)
    directory.write(tmp_path, {"tls.crt": first.certificate, "tls.key": first.key})
    assert files.look() == pki.fingerprint(first.certificate)


class Config:
    """A watched site config."""

    def __init__(self, file: Path, content: str) -> None:
        self.file = file
        file.write_text(content)
        self.health, self.metrics, self.log = Health(), Metrics(), Recorder()
        builtin = load.builtin()

        def parse(data: bytes) -> Site:
            return Site.parse(data, str(file), builtin)

        self.watched = SiteFile(str(file), parse, self.health, self.metrics, self.log, lambda: NOW)

    def look(self) -> str:
        """Look; the platform that is in use then."""
        asyncio.run(self.watched.poll())
        return self.watched.site.config.platform


def test_a_changed_config_is_used(tmp_path: Path) -> None:
    """Without a restart, and the metric names the new one."""
    watched = Config(tmp_path / "config.yaml", "platform: eks\n")
    before = watched.metrics.config_sha256
    watched.file.write_text("platform: aks\n")
    assert watched.look() == "aks"
    assert watched.metrics.config_sha256 != before
    assert watched.metrics.config_reloads == {"success": 1, "failure": 0}


def test_a_config_map_swapped_as_kubelets_do(tmp_path: Path) -> None:
    """The file is a link through `..data`, which is what moves."""
    directory.write(tmp_path, {"config.yaml": b"platform: eks\n"})
    health, metrics = Health(), Metrics()
    path, builtin = str(tmp_path / "config.yaml"), load.builtin()
    watched = SiteFile(path, lambda data: Site.parse(data, path, builtin), health, metrics, Recorder(), lambda: NOW)
    directory.write(tmp_path, {"config.yaml": b"platform: gfd\n"})
    asyncio.run(watched.poll())
    assert watched.site.config.platform == "gfd"


@pytest.mark.parametrize("broken", ["platform: moon\n", "platfrom: gke\n", "a: [", "- 1\n", "\x00"])
def test_a_broken_config_is_refused(tmp_path: Path, broken: str) -> None:
    """The last valid one stays in use; the error is logged and counted once; the metric shows it until corrected."""
    watched = Config(tmp_path / "config.yaml", "platform: eks\n")
    good = watched.metrics.config_sha256
    watched.file.write_text(broken)
    assert [watched.look() for _ in range(3)] == ["eks"] * 3
    assert watched.metrics.config_sha256 == good
    assert not watched.metrics.config_intact
    assert watched.metrics.config_reloads == {"success": 0, "failure": 1}
    errors = [line for line in watched.log.lines if line["level"] == "error"]
    assert len(errors) == 1
    assert "config.yaml" in errors[0]["problem"]
    watched.file.write_text("platform: none\n")
    assert watched.look() == "none"
    assert watched.metrics.config_intact


def test_a_broken_config_taken_back(tmp_path: Path) -> None:
    """Restoring the config in use also clears the error, although nothing has to be loaded."""
    watched = Config(tmp_path / "config.yaml", "platform: eks\n")
    watched.file.write_text("platform: moon\n")
    watched.look()
    watched.file.write_text("platform: eks\n")
    assert watched.look() == "eks"
    assert watched.metrics.config_intact


def test_a_config_that_goes_away(tmp_path: Path) -> None:
    """The last good one stays."""
    watched = Config(tmp_path / "config.yaml", "platform: eks\n")
    watched.file.unlink()
    assert [watched.look(), watched.look()] == ["eks", "eks"]
    assert watched.metrics.config_reloads["failure"] == 1


def test_no_start_with_a_broken_config(tmp_path: Path) -> None:
    """There is no last good one at the start."""
    with pytest.raises(BadConfig, match="platform"):
        Config(tmp_path / "config.yaml", "platform: moon\n")
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(Unusable, match=r"config\.yaml: No such file"):
        SiteFile(
            str(tmp_path / "config.yaml"),
            lambda data: Site.parse(data, "config.yaml", ()),
            Health(),
            Metrics(),
            Recorder(),
            lambda: NOW,
        )


def test_the_state_of_certs_run(tmp_path: Path) -> None:
    """Ready only once the file says so; its last state stays if the file becomes invalid or disappears."""
    health, metrics, file = Health(), Metrics(), tmp_path / "state.json"
    watched = StateFile(str(file), health, metrics)

    def problem() -> str:
        watched.poll()
        return health.state_problem

    assert "not written yet" in problem()
    file.write_text(json.dumps({"ready": False, "problem": "caBundle of pods.accel.io lacks it", "entries": {}}))
    assert problem() == "caBundle of pods.accel.io lacks it"
    assert metrics.ca_bundle_matches is False
    file.write_text(json.dumps({"ready": True, "problem": "", "rotations": 3}))
    assert problem() == ""
    assert metrics.ca_bundle_matches is True
    file.write_text('{"ready": tr')
    assert problem() == ""
    file.unlink()
    assert problem() == ""


def test_nobody_is_asked_without_a_state_file() -> None:
    """If something else fills caBundle, its state is neither a condition nor a metric."""
    health, metrics = Health(), Metrics()
    StateFile("", health, metrics).poll()
    assert (health.state_problem, metrics.ca_bundle_matches) == ("", None)


def test_readiness_names_every_reason() -> None:
    """An expired certificate and a stopping process are both reported; without them it is ready."""
    health = Health()
    health.config_loaded = health.listening = True
    health.certificate_not_after = NOW
    health.draining = True
    assert len(health.problems(NOW)) == 2
    health.draining = False
    health.certificate_not_after = pki.not_after(CA.certificate)
    assert health.problems(NOW) == []
