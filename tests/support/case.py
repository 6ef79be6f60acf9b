"""A golden case: a folder, cases/<kind or feature>/<claim>, with an object and the expected result.

input.yaml      one object, as a user would write it; its first line is `# Why: ` and what the case shows
expected.yaml   the whole object after injection, or
denied.txt      the message that kubectl would show
warnings.txt    one per line, if there are any
config.yaml     the site config, if it is not the default
old.yaml        the stored object; then the case is an UPDATE, and expected.yaml is what is stored afterwards. It is the
                result of injection for the input of some case; if not, its first line is `# Otherwise: ` and its origin
"""

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonpatch
import msgspec
import yaml

from webhook import load
from webhook.core.admission import Answer
from webhook.core.site import Site

FOLDER = Path(__file__).parents[1] / "cases"
NAMESPACE = "team-a"
WHY = "# Why: "
OTHERWISE = "# Otherwise: "


class Outcome(NamedTuple):
    """What an API server would do with a response."""

    patched: Any
    denied: str
    warnings: tuple[str, ...]
    patch: list[dict[str, Any]]


class Case(NamedTuple):
    """One folder."""

    folder: Path

    @property
    def name(self) -> str:
        """Group and claim, as in `jobset/two-slices`."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def why(self) -> str:
        """The sentence on the first line of the input; empty if there is none."""
        return _sentence(self.folder / "input.yaml", WHY)

    @property
    def object(self) -> Any:
        return read(self.folder / "input.yaml")

    @property
    def old(self) -> Any:
        path = self.folder / "old.yaml"
        return read(path) if path.exists() else None

    @property
    def otherwise(self) -> str:
        """The origin of the stored object if it is not a result of injection; else empty."""
        return _sentence(self.folder / "old.yaml", OTHERWISE)

    @property
    def site(self) -> Site:
        path = self.folder / "config.yaml"
        return site(path if path.exists() else None)

    @property
    def expected(self) -> Any:
        path = self.folder / "expected.yaml"
        return read(path) if path.exists() else None

    @property
    def denied(self) -> str:
        return _text(self.folder / "denied.txt")

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(_text(self.folder / "warnings.txt").splitlines())


def all_cases() -> list[Case]:
    """Every folder, by group and claim."""
    return [Case(path) for path in sorted(FOLDER.glob("*/*"))]


def site(path: Path | None) -> Site:
    """A site config. One that many cases have is parsed only once."""
    return _site(b"" if path is None else path.read_bytes())


@cache
def _site(text: bytes) -> Site:
    return Site.parse(text, "config.yaml", load.builtin())


def read(path: Path) -> Any:
    """One YAML document as JSON values."""
    return plain(_parsed(path.read_text()))


@cache
def _parsed(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: a date stays text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith("timestamp")]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def _text(path: Path) -> str:
    return path.read_text().rstrip("\n") if path.exists() else ""


def _sentence(path: Path, prefix: str) -> str:
    """The first line of a file without `prefix`; empty if it does not begin with it."""
    first = path.read_text().partition("\n")[0]
    return first.removeprefix(prefix) if first.startswith(prefix) else ""


def review(obj: Any, old: Any = None, **request: Any) -> bytes:
    """The request body that an API server would send: fields in Go's order, no spaces."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    metadata = obj.get("metadata") or {}
    return json.dumps(
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "6f1c8a52-0000-4000-8000-000000000001",
                "kind": {"group": group, "version": version, "kind": obj.get("kind", "")},
                "name": metadata.get("name", ""),
                "namespace": metadata.get("namespace") or NAMESPACE,
                "operation": "CREATE" if old is None else "UPDATE",
                "object": obj,
                "oldObject": old,
                **request,
            },
        },
        separators=(",", ":"),
    ).encode()


def outcome(body: bytes, obj: Any) -> Outcome:
    """The outcome of a response, whose patch is applied by an independent library."""
    response = json.loads(body)["response"]
    assert response["uid"] == "6f1c8a52-0000-4000-8000-000000000001"
    assert ("patch" in response) == ("patchType" in response)
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    denied = "" if response["allowed"] else response["status"]["message"]
    patched = jsonpatch.apply_patch(plain(obj), patch, in_place=True)  # copying by the library is slow
    return Outcome(patched, denied, tuple(response.get("warnings", ())), patch)


def decided(answer: Answer, obj: Any) -> Outcome:
    """`outcome` of an `Answer`; fails with the traceback of an internal error."""
    assert answer.status == 200, answer.detail or answer.body
    return outcome(answer.body, obj)


def plain(value: Any) -> Any:
    """A deep copy."""
    return msgspec.json.decode(msgspec.json.encode(value))
