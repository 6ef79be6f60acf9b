"""The chart as it is rendered: what needs the helm binary and no cluster."""

import base64
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from certs.metrics import Metrics as CertsMetrics
from charts import document
from tests.cluster import test_match_conditions
from tests.support import chart
from tests.support.chart import CHART, MODES, MONITORING, NAME, NAMESPACE, at, both_ways, helm, merged, one, render
from webhook import __version__
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.rules import host
from webhook.server.metrics import Metrics

VALUES = document.read((CHART / "values.yaml").read_text())
CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"
ENTRIES = [
    "pods.accel.io",
    "pods.reapply.accel.io",
    "jobs.workloads.accel.io",
    "jobs.reapply.accel.io",
    "cronjobs.workloads.accel.io",
    "cronjobs.reapply.accel.io",
    "deployments.workloads.accel.io",
    "deployments.reapply.accel.io",
    "statefulsets.workloads.accel.io",
    "statefulsets.reapply.accel.io",
    "replicasets.workloads.accel.io",
    "replicasets.reapply.accel.io",
    "jobsets.workloads.accel.io",
    "jobsets.reapply.accel.io",
    "vcjobs.workloads.accel.io",
    "vcjobs.reapply.accel.io",
    "leaderworkersets.workloads.accel.io",
    "leaderworkersets.reapply.accel.io",
    "rayclusters.workloads.accel.io",
    "rayclusters.reapply.accel.io",
    "rayjobs.workloads.accel.io",
    "rayjobs.reapply.accel.io",
    "rayservices.workloads.accel.io",
    "rayservices.reapply.accel.io",
    "pytorchjobs.workloads.accel.io",
    "pytorchjobs.reapply.accel.io",
    "tfjobs.workloads.accel.io",
    "tfjobs.reapply.accel.io",
    "mpijobs.workloads.accel.io",
    "mpijobs.reapply.accel.io",
]


NARROW = ("webhookFrom", "metricsFrom", "apiServerCIDRs")


def entries(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {webhook["name"]: webhook for webhook in one(objects, "MutatingWebhookConfiguration")["webhooks"]}


def containers(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    return {container["name"]: container for container in pod["containers"]}


@pytest.mark.parametrize("mode", MODES)
def test_lint(mode: str) -> None:
    """helm lint finds nothing, warnings included."""
    done = helm("lint", "--strict", "--namespace", NAMESPACE, str(CHART), values=MODES[mode])
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search("WARNING|ERROR", done.stdout), done.stdout


def test_schema_and_readme_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    """values.schema.json and the table in README.md are what values.yaml makes of them (else: make docs)."""
    assert document.main(check=True) == 0, capsys.readouterr().out


def test_staleness_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed comment makes both files stale, and writing them makes them fresh."""
    for name in ("values.yaml", "values.schema.json", "README.md"):
        shutil.copy(CHART / name, tmp_path)
    values = tmp_path / "values.yaml"
    values.write_text(values.read_text().replace("Number of replicas.", "Replicas."))
    monkeypatch.setattr(document, "CHART", tmp_path)
    assert document.main(check=True) == 1
    assert {"values.schema.json", "README.md"} == set(
        re.findall(r"\w+\.\w+(?:\.\w+)?$", capsys.readouterr().out, re.MULTILINE)
    )
    assert document.main(check=False) == 0
    assert document.main(check=True) == 0


def test_undocumented_value_is_an_error() -> None:
    """A value without a comment cannot get into the chart."""
    with pytest.raises(document.Undocumented, match=r"b\.d has no"):
        document.schema(
            document.read("# -- A.\na: 1\nb:\n  # -- C.\n  c: 1\n  d: 2\n"), {"a": 1, "b": {"c": 1, "d": 2}}
        )


def test_versions_agree() -> None:
    """The chart installs the version that the program says it is."""
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"replica": 3}, "additional properties 'replica' not allowed"),
        ({"webhook": {"failurePolcy": "Fail"}}, "additional properties 'failurePolcy' not allowed"),
        ({"config": {"placement": {}}}, "additional properties 'placement' not allowed"),
        (
            {"config": {"placements": {"spot": {"nodeselector": {}}}}},
            "additional properties 'nodeselector' not allowed",
        ),
        (
            {"config": {"placements": {"spot": {"resources": {"a/b": True}}}}},
            "'/config/placements/spot/resources/a~1b'",
        ),
        ({"config": {"tpu": {"environment": "half"}}}, "value must be one of 'full', 'megascale'"),
        ({"config": {"schedulers": {"defaults": [{"queu": "q"}]}}}, "additional properties 'queu' not allowed"),
        ({"config": {"schedulers": {"queues": {"kai": {"on": "pod"}}}}}, "additional properties 'on' not allowed"),
        ({"config": {"hostProfiles": {"a": {"modes": ["hosts"]}}}}, "'/config/hostProfiles/a/modes/0'"),
        ({"config": {"hostProfiles": {"a": {"devices": [{"pth": "/dev/a"}]}}}}, "'/config/hostProfiles/a/devices/0'"),
        ({"config": {"accelerators": {"a/b": {"envvars": []}}}}, "additional properties 'envvars' not allowed"),
        ({"config": {"catalogue": [{"name": "example-npu"}]}}, "'/config/catalogue/0'"),
        ({"config": {"gfd": {"models": {"nvidia-t4": {"share": True}}}}}, "additional properties 'share' not allowed"),
        ({"tls": {"mode": "selfsigned"}}, "value must be one of 'self-managed', 'cert-manager', 'existing-secret'"),
        ({"webhook": {"failurePolicy": "ignore"}}, "value must be one of 'Fail', 'Ignore'"),
        ({"config": {"platform": "GKE"}}, "'/config/platform'"),
        ({"replicas": 0}, "minimum: got 0, want 1"),
        ({"replicas": "2"}, "got string, want integer"),
        ({"webhook": {"port": 443}}, "minimum: got 443, want 1,024"),
        ({"image": {"digest": "sha256:short"}}, "'/image/digest'"),
        ({"labels": {"a": 1}}, "got number, want string"),
    ],
)
def test_schema_refuses(values: dict[str, Any], complaint: str) -> None:
    """A misspelt or impossible value is refused with its path, at the root and below."""
    done = helm("template", NAME, str(CHART), "--namespace", NAMESPACE, values=values)
    assert done.returncode != 0
    assert complaint in done.stderr


REQUIREMENTS: list[tuple[dict[str, Any], str]] = [
    ({"tls": {"mode": "existing-secret"}}, "needs tls.existingSecret: the name of a kubernetes.io/tls Secret"),
    ({"tls": {"mode": "existing-secret", "existingSecret": "a"}}, "needs tls.caBundle: the PEM"),
    ({"tls": {"caBundle": "MA=="}}, "tls.caBundle is for tls.mode existing-secret; in mode self-managed"),
    (
        {"tls": {"existingSecret": "a"}},
        "tls.existingSecret is for tls.mode existing-secret, but the mode is self-managed",
    ),
    ({"tls": {"certManager": {"issuerRef": {"name": "a"}}}}, "tls.certManager.issuerRef is for tls.mode cert-manager"),
    ({"metrics": {"port": 8443}}, "metrics.certsPort are 8443, 8443, 8081: choose three different ports"),
    ({"hostNetwork": True, "webhook": {"port": 10250}}, "10250 is the kubelet's port on every node: choose another"),
    ({"tls": {"clientCA": {"names": ["a"]}}}, "tls.clientCA.names without tls.clientCA.configMap"),
    ({"serviceAccount": {"create": False}}, "set serviceAccount.name to the account to use"),
]


@pytest.mark.parametrize(("values", "complaint"), REQUIREMENTS)
def test_values_that_do_not_agree(values: dict[str, Any], complaint: str) -> None:
    """Values that cannot work together are refused, and the message says what to do."""
    done = helm("template", NAME, str(CHART), "--namespace", NAMESPACE, values=values)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_default_namespace_is_refused() -> None:
    """The release's namespace is never injected, so it must not be the one that people try things in."""
    done = helm("template", NAME, str(CHART), "--namespace", "default")
    assert done.returncode != 0
    assert "--namespace accel-system --create-namespace" in done.stderr


def test_every_requirement_is_tried() -> None:
    """Each message of requirements.yaml is seen in a test: those above and the namespace's."""
    text = (CHART / "templates" / "requirements.yaml").read_text()
    assert len(re.findall(r"\bfail\b", text.split("*/", 1)[1])) == len(REQUIREMENTS) + 1


def test_entries() -> None:
    """The webhook's entries are these, in this order, and the policy of each is what its kind of call needs."""
    found = entries(render())
    assert list(found) == ENTRIES
    for name, webhook in found.items():
        reapply = ".reapply." in name
        assert webhook["failurePolicy"] == ("Ignore" if reapply else "Fail")
        assert webhook["timeoutSeconds"] == 5
        assert webhook["reinvocationPolicy"] == "IfNeeded"
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["sideEffects"] == "None"
        assert webhook["admissionReviewVersions"] == ["v1"]
        service = {"name": NAME, "namespace": NAMESPACE, "path": "/mutate", "port": 443}
        assert webhook["clientConfig"] == {"service": service}
        assert webhook["namespaceSelector"] == {
            "matchLabels": {"accel.io/injection": "enabled"},
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-system", "kube-node-lease", NAMESPACE],
                }
            ],
        }
        assert webhook["objectSelector"] == {}
        (rule,) = webhook["rules"]
        assert rule["operations"] == ["UPDATE" if reapply else "CREATE"]
        assert rule["scope"] == "Namespaced"
        assert not any("/" in resource or "*" in resource for resource in rule["resources"])
        assert [c["name"] for c in webhook["matchConditions"]] == (["asked", "changed"] if reapply else ["asked"])


def test_entries_are_of_the_kinds_that_are_known() -> None:
    """The chart sends the kinds, versions and updates that the program has rules for, and those only."""
    kinds = yaml.safe_load((CHART / "files" / "kinds.yaml").read_text())
    sent = {
        (group, tuple(kind["rule"]["apiVersions"]), resource, "reapply" in kind)
        for kind in kinds
        for group in kind["rule"]["apiGroups"]
        for resource in kind["rule"]["resources"]
    }
    known = {(w.group, w.versions, w.plural, bool(w.reapply)) for w in WORKLOADS.values()}
    assert sent == known - {("", ("v1",), "pods", True)}


def test_conditions_are_tried_with_each_entry() -> None:
    """tests/cluster/test_match_conditions.py has an object of each kind, and one that is hollow."""
    names = [kind["name"] for kind in yaml.safe_load((CHART / "files" / "kinds.yaml").read_text())]
    assert set(names) == set(test_match_conditions.KINDS) == set(test_match_conditions.HOLLOW)


def test_failure_policy_is_of_admission_only() -> None:
    """Ignore by value changes the entries that admit; the others are Ignore anyway."""
    found = entries(render(at("webhook.failurePolicy", "Ignore")))
    assert {webhook["failurePolicy"] for webhook in found.values()} == {"Ignore"}


@pytest.mark.parametrize(
    "values", [{"config": {"detect": ["b", "a"]}}, {"config": {"accelerators": {"a": {}, "b": {}}}}]
)
def test_detection(values: dict[str, Any]) -> None:
    """`detect` and the older format each make the entry, which never refuses."""
    found = entries(render(values))
    assert [*found] == [*ENTRIES, "detect.accel.io"]
    webhook = found["detect.accel.io"]
    assert webhook["failurePolicy"] == "Ignore"
    assert [rule["apiGroups"] for rule in webhook["rules"]] == [[""], ["batch.volcano.sh"]]
    assert 'k in ["a","b"]' in webhook["matchConditions"][0]["expression"]


@pytest.mark.parametrize("mode", MODES)
def test_ca_bundle(mode: str) -> None:
    """Only an existing Secret's caBundle is rendered: in the other modes a value would undo what was written."""
    objects = render(MODES[mode])
    rendered = {"caBundle" in webhook["clientConfig"] for webhook in entries(objects).values()}
    assert rendered == {mode == "existing-secret"}
    annotations = one(objects, "MutatingWebhookConfiguration")["metadata"].get("annotations", {})
    expected = {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/{NAME}-tls"} if mode == "cert-manager" else {}
    assert annotations == expected


def test_ca_bundle_as_text_and_as_base64() -> None:
    """PEM and its base64 are the same value."""
    texts = (chart.PEM, base64.b64encode(chart.PEM.encode()).decode())
    rendered = [entries(render(merged(chart.EXISTING, at("tls.caBundle", text)))) for text in texts]
    assert rendered[0] == rendered[1]


def test_secret_is_rendered_empty() -> None:
    """The CA's Secret is rendered without data, or an upgrade would remove the CA."""
    secret = one(render(), "Secret", f"{NAME}-ca")
    assert set(secret) == {"apiVersion", "kind", "metadata", "type"}


@pytest.mark.parametrize(("version", "platform"), [("v1.33.4-gke.1350000", "gke"), ("v1.33.3-eks-ace6451", "eks")])
def test_platform_by_version(version: str, platform: str) -> None:
    """`auto` is what the API server's version says; a platform that was named stays."""
    for value, expected in (("auto", platform), ("aks", "aks")):
        objects = render(at("config.platform", value), "--kube-version", version)
        config = yaml.safe_load(one(objects, "ConfigMap")["data"]["config.yaml"])
        assert config["platform"] == expected


@pytest.mark.parametrize(
    "version", ["v1.34", "v1.33.2", "v1.34.1+k3s1", "v1.33.5+rke2r1", "v1.31.7+IKS", "v1.34.1-aks-gke-like", ""]
)
def test_no_platform_is_guessed(version: str) -> None:
    """k3s, RKE2, AKS, IBM's, Argo CD (major and minor alone) and no cluster at all: the message says what to run."""
    args = ["--kube-version", version] if version else []
    done = helm("template", NAME, str(CHART), "--namespace", NAMESPACE, *args)
    assert done.returncode != 0
    assert "--set config.platform=gfd" in done.stderr

    done = helm("template", NAME, str(CHART), "--namespace", NAMESPACE, *args, "--set", "config.platform=gfd")
    assert done.returncode == 0, done.stderr


def test_old_servers_are_refused() -> None:
    """matchLabelKeys in pod affinity is on since 1.31; before, the chart does not install."""
    done = helm("template", NAME, str(CHART), "--namespace", NAMESPACE, "--kube-version", "v1.30.9")
    assert done.returncode != 0
    assert "1.31.0" in done.stderr


def test_every_value_has_another() -> None:
    """The table of other values names each documented value that is not a group, and nothing else."""
    groups = {".".join(v.path[:depth]) for v in VALUES for depth in range(1, len(v.path))}
    assert set(chart.OTHERS) == {".".join(v.path) for v in VALUES} - groups


@pytest.mark.parametrize("path", chart.OTHERS)
def test_every_value_changes_something(path: str) -> None:
    """No value is decoration: another one makes other objects."""
    before, after = both_ways(path)
    assert render(before) != render(after)


@pytest.mark.parametrize("mode", MODES)
def test_common_metadata(mode: str) -> None:
    """Every object carries the chart's labels, the admin's own labels and annotations, and a bounded name."""
    given = {
        "labels": {"example.com/a": "b"},
        "annotations": {"example.com/c": "d"},
        "metrics": {"dashboard": {"enabled": True}},
    }
    name = "a-rather-long-release-name-that-is-fifty-three-letters"[:53]
    objects = render(merged(MODES[mode], given), *(f"--api-versions={v}" for v in MONITORING), name=name)
    assert len(objects) >= 15
    for found in objects:
        metadata = found["metadata"]
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm", metadata
        assert metadata["labels"]["example.com/a"] == "b", metadata
        assert metadata["annotations"]["example.com/c"] == "d", metadata
        assert len(metadata["name"]) <= 63


def test_service_selects_the_replicas_alone() -> None:
    """The pod of `helm test` must not get the webhook's calls."""
    objects = render()
    selector = one(objects, "Service")["spec"]["selector"].items()
    assert selector <= one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    assert not selector <= one(objects, "Pod", f"{NAME}-test")["metadata"]["labels"].items()


@pytest.mark.parametrize("mode", MODES)
def test_credentials(mode: str) -> None:
    """The container that reads other people's bytes has no token in any mode; the other one has it mounted by hand."""
    objects = render(MODES[mode])
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert one(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    holders = {n for n, c in containers(objects).items() if CREDENTIALS in [m["mountPath"] for m in c["volumeMounts"]]}
    assert holders == ({"certs"} if mode == "self-managed" else set())
    mounted = [mount for mount in containers(objects)["webhook"]["volumeMounts"] if not mount.get("readOnly")]
    assert mounted == []


@pytest.mark.parametrize("mode", MODES)
def test_rights(mode: str) -> None:
    """No right without a name, and none at all where certificates come from elsewhere."""
    objects = [o for o in render(MODES[mode]) if o["metadata"]["name"] == NAME]
    rules = [rule for o in objects if o["kind"] in ("Role", "ClusterRole") for rule in o["rules"]]
    if mode != "self-managed":
        assert rules == []
        return
    rights = {(r["resources"][0], r["resourceNames"][0]): set(r["verbs"]) for r in rules}
    assert rights == {
        ("secrets", f"{NAME}-ca"): {"get", "watch", "update"},
        ("mutatingwebhookconfigurations", NAME): {"get", "watch", "patch"},
    }


def test_keys_of_a_given_secret() -> None:
    """Only the pair that is served with is mounted, and only the CA of callers, whatever else is beside them."""
    for mode in (chart.CERT_MANAGER, chart.EXISTING):
        values = merged(mode, at("tls.clientCA.configMap", "callers"))
        volumes = {v["name"]: v for v in one(render(values), "Deployment")["spec"]["template"]["spec"]["volumes"]}
        assert [item["key"] for item in volumes["tls"]["secret"]["items"]] == ["tls.crt", "tls.key"]
        assert [item["key"] for item in volumes["client-ca"]["configMap"]["items"]] == ["ca.crt"]


@pytest.mark.parametrize("mode", MODES)
def test_token(mode: str) -> None:
    """A container with a token has it for ten minutes, the minimum, from a volume mount of its own."""
    pods = [one(render(MODES[mode]), "Deployment")["spec"]["template"], one(render(MODES[mode]), "Pod", f"{NAME}-test")]
    tokens = [
        source["serviceAccountToken"]
        for pod in pods
        for volume in pod["spec"]["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
        if "serviceAccountToken" in source
    ]
    assert tokens == [{"path": "token", "expirationSeconds": 600}] * (2 if mode == "self-managed" else 1)
    assert [pod["spec"]["automountServiceAccountToken"] for pod in pods] == [False, False]


def policies(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each ValidatingAdmissionPolicy by name, after a look at its binding."""
    found = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "ValidatingAdmissionPolicy"}
    bindings = [o["spec"] for o in objects if o["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert bindings == [{"policyName": name, "validationActions": ["Deny"]} for name in found]
    return found


@pytest.mark.parametrize("mode", MODES)
def test_policies(mode: str) -> None:
    """One for the label of mode host in every mode, one for the account where there is one; each can be left out."""
    certs, whole_node = f"{NAME}-certs", f"{NAME}-whole-node"
    ours = {certs} if mode == "self-managed" else set()
    assert set(policies(render(MODES[mode]))) == {whole_node} | ours
    assert set(policies(render(merged(MODES[mode], at("policies.wholeNode", False))))) == ours
    assert set(policies(render(merged(MODES[mode], at("policies.certs", False))))) == {whole_node}
    assert {policy["failurePolicy"] for policy in policies(render(MODES[mode])).values()} == {"Fail"}


def test_policy_and_mode_host_agree() -> None:
    """The term that the policy accepts is the one that mode host writes, and the message shows it."""
    policy = policies(render())[f"{NAME}-whole-node"]
    (validation,) = policy["validations"]
    assert json.loads(validation["message"][validation["message"].index("{") :]) == host.APART
    # What is left of the expression without its conversions is JSON.
    assert json.loads(re.sub(r"dyn\(|\)", "", policy["variables"][1]["expression"])) == host.APART
    alike = policy["matchConstraints"]["objectSelector"]
    assert alike == host.APART["labelSelector"]


@pytest.mark.parametrize("account", ["", "other"])
def test_policy_of_the_account_is_of_the_account(account: str) -> None:
    """It applies to the user with the permissions, whatever the account's name, and to no other."""
    objects = render(at("serviceAccount.name", account))
    (condition,) = policies(objects)[f"{NAME}-certs"]["matchConditions"]
    (subject,) = one(objects, "ClusterRoleBinding")["subjects"]
    user = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    assert condition["expression"] == f'request.userInfo.username == "{user}"'


def test_probes() -> None:
    """A stalled replica is out of the Service 3 s after it says so; after 30 s it is killed, and not waited for."""
    webhook = containers(render())["webhook"]
    readiness, liveness = webhook["readinessProbe"], webhook["livenessProbe"]
    assert readiness["periodSeconds"] * readiness["failureThreshold"] + readiness["timeoutSeconds"] <= 3
    assert liveness["periodSeconds"] * liveness["failureThreshold"] == 30
    assert liveness["terminationGracePeriodSeconds"] == 5


def test_namespace_of_helm_test() -> None:
    """Its account may create any pod there, so PodSecurity says what a pod may be."""
    labels = one(render(), "Namespace", f"{NAME}-test")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    (rule,) = one(render(), "Role", f"{NAME}-test")["rules"]
    assert rule == {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}


@pytest.mark.parametrize("mode", MODES)
def test_the_config_is_checked_first(mode: str) -> None:
    """By the webhook's own image and rights, before it starts, with nothing but the config to read."""
    pod = one(render(MODES[mode]), "Deployment")["spec"]["template"]["spec"]
    (first,), webhook = pod["initContainers"], pod["containers"][0]

    assert first["args"] == ["config", "check", "/etc/accel/config/config.yaml"]
    assert [mount["name"] for mount in first["volumeMounts"]] == ["config"]
    for field in ("image", "imagePullPolicy", "resources", "securityContext"):
        assert first[field] == webhook[field]


def test_resources() -> None:
    """Requests, a memory limit, and no CPU limit."""
    for container in containers(render()).values():
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert set(container["resources"]["limits"]) == {"memory"}


@pytest.mark.parametrize("seconds", [0, 10, 60])
def test_grace_period_covers_the_end(seconds: int) -> None:
    """The kubelet waits for the lame duck, for ten seconds of draining, and then a little."""
    objects = render(at("webhook.lameDuckSeconds", seconds))
    assert f"--lame-duck={seconds}" in containers(objects)["webhook"]["args"]
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == seconds + 20


def test_rolling_update_never_has_fewer() -> None:
    """A new replica is ready before an old one goes."""
    strategy = one(render(), "Deployment")["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


def test_disruption_budget_needs_two() -> None:
    """With one replica a budget would hold up every drain."""
    assert one(render(), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert "PodDisruptionBudget" not in {o["kind"] for o in render({"replicas": 1})}


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PrometheusRule"])
def test_monitoring_objects(kind: str) -> None:
    """By default where the cluster knows the kind; by value everywhere, or nowhere."""
    path = f"metrics.{kind[0].lower()}{kind[1:]}.enabled"
    versions = [f"--api-versions={version}" for version in MONITORING]
    cases: list[tuple[dict[str, Any], list[str], bool]] = [
        ({}, [], False),
        ({}, versions, True),
        (at(path, True), [], True),
        (at(path, False), versions, False),
    ]
    for values, args, expected in cases:
        assert (kind in {o["kind"] for o in render(values, *args)}) == expected


def test_alerts_and_dashboard_use_metrics_that_exist() -> None:
    """Each name of ours in an alert or a panel is one that the program shows."""
    shown = set(re.findall(r"^# TYPE (\S+)", shown_metrics(), re.MULTILINE))
    shown |= set(re.findall(r"^# TYPE (\S+)", generate_latest(CertsMetrics().registry).decode(), re.MULTILINE))
    shown |= {f"{name}_bucket" for name in shown}
    rule = one(render(at("metrics.prometheusRule.enabled", True)), "PrometheusRule")
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
    used = set(re.findall(r"\baccel_\w+", json.dumps([rule, dashboard])))
    assert len(used) > 8
    assert used <= shown


def shown_metrics() -> str:
    metrics = Metrics()
    metrics.ca_bundle_matches = True
    return metrics.render().decode()


@pytest.mark.parametrize("mode", MODES)
def test_alerts_fit_the_mode(mode: str) -> None:
    """The alert of the CA is for those who write it; certificates that people renew are warned of a week ahead."""
    objects = render(merged(MODES[mode], at("metrics.prometheusRule.enabled", True)))
    (group,) = one(objects, "PrometheusRule")["spec"]["groups"]
    alerts = {rule["alert"]: rule for rule in group["rules"]}
    assert ("AccelInjectorCAMissing" in alerts) == (mode == "self-managed")
    hours = 24 if mode == "self-managed" else 168
    assert f"- time() < {hours * 3600} " in alerts["AccelInjectorCertificateEnding"]["expr"]
    for rule in alerts.values():
        assert set(rule["annotations"]) == {"summary", "description"}


def test_network_policy() -> None:
    """In: two ports. Out: to the API server's ports, and nowhere where there are no credentials."""
    policy = one(render(), "NetworkPolicy")["spec"]
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == ["https", "metrics", "certs"]
    assert [port["port"] for rule in policy["egress"] for port in rule["ports"]] == [443, 6443]
    assert not any("to" in rule or "from" in rule for rule in (*policy["ingress"], *policy["egress"]))
    assert one(render(chart.CERT_MANAGER), "NetworkPolicy")["spec"]["egress"] == []


def test_network_policy_made_narrow() -> None:
    """Who calls the webhook, who reads metrics, and where the API server is: each by its value, and by that alone."""
    given = merged(*(at(f"networkPolicy.{key}", chart.OTHERS[f"networkPolicy.{key}"]) for key in NARROW))
    policy = one(render(given), "NetworkPolicy")["spec"]
    assert [rule["from"] for rule in policy["ingress"]] == [given["networkPolicy"][key] for key in NARROW[:2]]
    blocks = [{"ipBlock": {"cidr": cidr}} for cidr in given["networkPolicy"]["apiServerCIDRs"]]
    assert policy["egress"] == [{"ports": [{"port": 443}, {"port": 6443}], "to": blocks}]
    assert one(render(merged(given, chart.CERT_MANAGER)), "NetworkPolicy")["spec"]["egress"] == []


def test_client_verification() -> None:
    """The API server's certificate is asked for where a CA is given, and its name where names are."""
    args = containers(render(chart.at("tls.clientCA.configMap", "callers")))["webhook"]["args"]
    assert "--client-ca-file=/etc/accel/client-ca/ca.crt" in args
    assert not any(arg.startswith("--client-names") for arg in args)


def test_cert_manager_objects() -> None:
    """The release has its own CA, unless an issuer is named; the leaf is for the name that is dialled."""
    objects = render(chart.CERT_MANAGER)
    leaf = one(objects, "Certificate", f"{NAME}-tls")["spec"]
    assert leaf["dnsNames"][0] == f"{NAME}.{NAMESPACE}.svc"
    assert leaf["issuerRef"] == {"kind": "Issuer", "name": f"{NAME}-ca"}
    assert one(objects, "Certificate", f"{NAME}-ca")["spec"]["isCA"] is True
    named = render(merged(chart.CERT_MANAGER, at("tls.certManager.issuerRef", {"name": "company"})))
    assert [o["metadata"]["name"] for o in named if o["apiVersion"].startswith("cert-manager.io")] == [f"{NAME}-tls"]


def test_script_of_document() -> None:
    """`python charts/document.py --check` says by its exit code whether something is stale."""
    done = subprocess.run([sys.executable, str(CHART.parent / "document.py"), "--check"], check=False)
    assert done.returncode == 0
