"""The golden cases of Pods, sent through the API server: which there are, by site config, and what is to come of each.

`PLAIN` go to the chart as it is, each of `GROUPS` to the chart with its config as the value `config`. Cases of
`NOT_FOR_A_CLIENT` are in there too; they are skipped with their reason, as long as the API server refuses them. It
must not know how a config is installed.
"""

import json
from typing import NamedTuple

import pytest

from tests.support.case import NAMESPACE, Case, all_cases, read
from tests.support.stored import missing

from .chart import INJECTED
from .controlplane import ControlPlane, expect
from .rest import Answer

NOT_FOR_A_CLIENT = {
    "detect/requests-alone": "an API server refuses a device that is requested and not limited",
    "pod/mirror-skipped": "only a kubelet can create a mirror Pod",
}


class Group(NamedTuple):
    """Cases that share a site config: its JSON, so that a fixture's parameters compare by it."""

    config: str
    cases: tuple[Case, ...]


def config_of(case: Case) -> str:
    """The case's site config as JSON; empty where the case has none."""
    path = case.folder / "config.yaml"
    return json.dumps(read(path)) if path.exists() else ""


def grouped(cases: list[Case]) -> list[Group]:
    """One group for each config, whatever its layout and comments are."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(config_of(case), []).append(case)
    return [Group(config, tuple(found)) for config, found in groups.items()]


PODS = [case for case in all_cases() if case.object["kind"] == "Pod" and case.old is None]
"""Those of a new Pod: an update's input is what an apply makes of a stored one."""

PLAIN = [case for case in PODS if not config_of(case)]
GROUPS = grouped([case for case in PODS if config_of(case)])


RUNTIME_CLASSES = ("nvidia", "nvidia-cdi", "kata", "gvisor")
"""Those of the golden cases."""


def opt_in(cluster: ControlPlane, namespace: str) -> None:
    """A namespace of this name that is injected, with the service account that Pods need."""
    for name in RUNTIME_CLASSES:  # the API server refuses a Pod of a class that does not exist
        cluster.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": name}, "handler": name})
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": INJECTED}}
    path, query = f"/api/v1/namespaces/{namespace}", {"fieldManager": "tests", "force": "true"}
    expect(cluster.request("PATCH", path, body, query, content="application/apply-patch+yaml"), namespace)
    account = f"{path}/serviceaccounts/default"
    cluster.wait_for("the service account", lambda: cluster.request("GET", account).ok)


def create(cluster: ControlPlane, case: Case) -> Answer:
    """Send the case's Pod, dry run. Where the table says that no client can, and it was refused, skip the test."""
    namespace = case.object["metadata"].get("namespace", NAMESPACE)
    opt_in(cluster, namespace)
    answer = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", case.object, {"dryRun": "All"})
    if case.name in NOT_FOR_A_CLIENT and not answer.ok:
        pytest.skip(f"{NOT_FOR_A_CLIENT[case.name]}: {answer.body['message']}")
    return answer


def amiss(case: Case, answer: Answer) -> list[str]:
    """How the answer differs from what `accel inject` prints, apart from what the API server defaults."""
    message = answer.body.get("message", "")
    if case.denied:
        refused = answer.status in (403, 422) and case.denied in message
        return [] if refused else [f"{answer.status}: {message or 'allowed'}"]
    if answer.status != 201:
        return [f"{answer.status}: {message}"]
    warnings = {w for w in answer.warnings if w.startswith("accel.io:")}
    return [*missing(case.expected, answer.body), *sorted(warnings ^ set(case.warnings))]
