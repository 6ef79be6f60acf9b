"""Golden cases of Pods with a site config of their own: the chart is upgraded to it, then they are sent."""

import hashlib
import json
import urllib.request
from functools import partial

import pytest

from tests.support.case import NAMESPACE, Case, all_cases

from . import goldens, metrics
from .chart import Release
from .controlplane import ControlPlane
from .goldens import GROUPS, NOT_FOR_A_CLIENT, PLAIN

CASES = [pytest.param(group.config, case, id=case.name) for group in GROUPS for case in group.cases]


def figure(release: Release, metric: str, **labels: str) -> float:
    """The sum of the metric's samples on the one replica's /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{release.pods[0].ports['metrics']}/metrics") as answer:
        return sum(sample.value for sample in metrics.samples(answer.read().decode(), metric, **labels))


def followed(release: Release) -> bool:
    """Whether the replica uses what the chart's ConfigMap holds, byte for byte."""
    found = release.cluster.get(f"/api/v1/namespaces/{release.namespace}/configmaps/{release.fullname}")
    sha256 = hashlib.sha256(found["data"]["config.yaml"].encode()).hexdigest()[:12]
    return figure(release, "accel_webhook_config_info", sha256=sha256) == 1


def asks(release: Release, resource: str) -> bool:
    """Whether the API server asks us about a Pod that has the resource and no annotation."""
    before = figure(release, "accel_webhook_requests_total")
    container = {"name": "main", "image": "example/train", "resources": {"limits": {resource: "1"}}}
    body = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    release.cluster.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body, {"dryRun": "All"})
    return figure(release, "accel_webhook_requests_total") > before


@pytest.fixture(scope="module")
def configured(cluster: ControlPlane, injector: Release, request: pytest.FixtureRequest) -> None:
    """The group's config is the release's: the replica has read it, and the API server follows what it detects.

    Every config of a case is a value of the chart as it is; so is the older format, `accelerators`.
    """
    config = json.loads(request.param)
    injector.upgrade({"replicas": 1, "config": config})
    injector.wait_for("the config to be used", partial(followed, injector))
    goldens.opt_in(cluster, NAMESPACE)
    for resource in (*config.get("detect", ()), *config.get("accelerators", ())):
        injector.wait_for(f"{resource} to be detected", partial(asks, injector, resource))


@pytest.mark.parametrize(("configured", "case"), CASES, indirect=["configured"], scope="module")
def test_golden_cases_are_stored_as_the_command_prints_them(
    cluster: ControlPlane, configured: None, case: Case
) -> None:
    """Dry run of every Pod case that has a config; what the API server defaults comes on top."""
    assert [] == goldens.amiss(case, goldens.create(cluster, case))


def test_no_case_is_left_out() -> None:
    """Every case of a new Pod is sent once, without a config or with its own; the table names cases that there are."""
    pods = [case for case in all_cases() if case.object["kind"] == "Pod" and case.old is None]
    names = [case.name for case in pods]
    plain = [case.name for case in PLAIN]
    configured = [case.name for group in GROUPS for case in group.cases]
    print(f"{len(plain)} cases without a config, {len(configured)} with one of {len(GROUPS)} configs")

    assert sorted(names) == sorted([*plain, *configured])
    assert NOT_FOR_A_CLIENT.keys() <= set(names)
