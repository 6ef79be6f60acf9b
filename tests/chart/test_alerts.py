"""The chart's alerts, judged by Prometheus's own promtool: which fire in which situation, after two hours of it."""

import functools
import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster import binaries
from tests.support.chart import NAME, NAMESPACE, at, one, render

MINUTES = 120
OURS = f'namespace="{NAMESPACE}",service="{NAME}"'


def flat(value: float) -> str:
    return f"{value}x{MINUTES}"


def growing(step: float) -> str:
    return f"0+{step}x{MINUTES}"


HEALTHY = {
    f'accel_webhook_ready{{{OURS},pod="a"}}': flat(1),
    f'accel_webhook_ready{{{OURS},pod="b"}}': flat(1),
    f'accel_webhook_cert_not_after_seconds{{{OURS},pod="a"}}': flat(7 * 86400),
    f'accel_webhook_cabundle_match{{{OURS},pod="a"}}': flat(1),
    f'accel_webhook_config_reload_success{{{OURS},pod="a"}}': flat(1),
    f'accel_webhook_requests_total{{{OURS},result="injected"}}': growing(60),
    f'accel_webhook_requests_total{{{OURS},result="error"}}': flat(3),
    f'accel_webhook_request_duration_seconds_bucket{{{OURS},le="0.001"}}': growing(60),
    f'accel_webhook_request_duration_seconds_bucket{{{OURS},le="0.25"}}': growing(60),
    f'accel_webhook_request_duration_seconds_bucket{{{OURS},le="+Inf"}}': growing(60),
    f'accel_certs_failures_total{{{OURS},pod="a",kind="unreachable"}}': flat(8),
    f'accel_certs_failures_total{{{OURS},pod="a",kind="conflict"}}': growing(1),
    f'accel_webhook_config_info{{{OURS},pod="a",sha256="1"}}': flat(1),
    f'accel_webhook_config_info{{{OURS},pod="b",sha256="1"}}': flat(1),
    f'accel_certs_leaf_not_after_seconds{{{OURS},pod="a"}}': flat(7 * 86400),
    f'accel_certs_authority_not_after_seconds{{{OURS},pod="a"}}': flat(365 * 86400),
    'apiserver_admission_webhook_rejection_count{name="pods.accel.io",error_type="no_error"}': growing(1),
    'apiserver_admission_webhook_rejection_count{name="other.example.com",error_type="calling_webhook_error"}': growing(
        1
    ),
    'apiserver_admission_webhook_fail_open_count{name="pods.accel.io"}': flat(2),
}

SITUATIONS: dict[str, tuple[dict[str, str], set[str]]] = {
    "all is well": ({}, set()),
    "nobody is ready": (
        {f'accel_webhook_ready{{{OURS},pod="{pod}"}}': flat(0) for pod in "ab"},
        {"AccelInjectorDown", "AccelInjectorReplicasMissing"},
    ),
    "one of two is ready": ({f'accel_webhook_ready{{{OURS},pod="b"}}': flat(0)}, {"AccelInjectorReplicasMissing"}),
    "the API server gets no answer": (
        {
            'apiserver_admission_webhook_rejection_count{name="jobs.workloads.accel.io",'
            'error_type="calling_webhook_error"}': growing(1)
        },
        {"AccelInjectorUnreachable"},
    ),
    "the API server lets objects through": (
        {'apiserver_admission_webhook_fail_open_count{name="pods.accel.io"}': growing(1)},
        {"AccelInjectorUnreachable"},
    ),
    "reviews fail": (
        {f'accel_webhook_requests_total{{{OURS},result="error"}}': growing(1)},
        {"AccelInjectorErrors"},
    ),
    "one answer in fifty is slow": (
        {f'accel_webhook_request_duration_seconds_bucket{{{OURS},le="0.001"}}': growing(58)},
        {"AccelInjectorSlow"},
    ),
    "the certificate ends tomorrow": (
        {f'accel_webhook_cert_not_after_seconds{{{OURS},pod="a"}}': flat(86400)},
        {"AccelInjectorCertificateEnding"},
    ),
    "there is no certificate yet": ({f'accel_webhook_cert_not_after_seconds{{{OURS},pod="a"}}': flat(0)}, set()),
    "the CA is missing": (
        {f'accel_webhook_cabundle_match{{{OURS},pod="a"}}': flat(0)},
        {"AccelInjectorCAMissing"},
    ),
    "the site config is wrong": (
        {f'accel_webhook_config_reload_success{{{OURS},pod="a"}}': flat(0)},
        {"AccelInjectorConfigRefused"},
    ),
    "the replicas' site configs differ": (
        {
            f'accel_webhook_config_info{{{OURS},pod="b",sha256="1"}}': f"1x60 _x{MINUTES - 60}",
            f'accel_webhook_config_info{{{OURS},pod="b",sha256="2"}}': f"_x60 1x{MINUTES - 60}",
        },
        {"AccelInjectorConfigsDiffer"},
    ),
    "the CA ends with its leaf": (
        {f'accel_certs_authority_not_after_seconds{{{OURS},pod="a"}}': flat(7 * 86400)},
        {"AccelInjectorAuthorityEnding"},
    ),
    "the certificates' container is refused": (
        {f'accel_certs_failures_total{{{OURS},pod="a",kind="refused"}}': growing(1)},
        {"AccelInjectorCertificatesFailing"},
    ),
}
"""Situation -> series that are not as in HEALTHY, and the alerts that fire."""


def groups(tmp_path: Path) -> Path:
    """The rules as Prometheus reads them."""
    rule = one(render(at("metrics.prometheusRule.enabled", True)), "PrometheusRule")
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(rule["spec"]))
    return path


@functools.cache
def program() -> tuple[str, str]:
    """PATH's promtool, else one that is built like the control plane; or why there is none."""
    try:
        return str(binaries.ensure("promtool")), ""
    except binaries.BuildError as error:
        return "", f"promtool is not on PATH (Debian's package prometheus has it), and was not built: {error}"


def promtool(*args: str) -> None:
    path, reason = program()
    if reason:
        pytest.skip(reason)
    done = subprocess.run([path, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_valid(tmp_path: Path) -> None:
    """promtool finds nothing to say about them."""
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(groups(tmp_path)))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_alerts(situation: str, tmp_path: Path) -> None:
    """In each situation these alerts fire, and no other."""
    changed, expected = SITUATIONS[situation]
    firing = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)]
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in (HEALTHY | changed).items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{MINUTES}m",
                "exp_samples": firing,
            }
        ],
    }
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(groups(tmp_path))], "tests": [test]}))
    promtool("test", "rules", str(path))


def test_every_alert_fires_somewhere() -> None:
    """No alert is without a situation."""
    (group,) = one(render(at("metrics.prometheusRule.enabled", True)), "PrometheusRule")["spec"]["groups"]
    assert {rule["alert"] for rule in group["rules"]} == set().union(*(alerts for _, alerts in SITUATIONS.values()))
