"""docs/security.md says what the chart gives: its tables against what helm renders, for each mode of certificates.

Where they differ, one of the two is wrong: the page is to be changed with the chart, in the same commit.
"""

import functools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.chart import MODES, NAME, NAMESPACE, OTHERS, at, merged, one, render
from tests.support.checkout import ROOT

PAGE = ROOT / "docs" / "security.md"
CALLERS = at("tls.clientCA.configMap", OTHERS["tls.clientCA.configMap"])
Rows = set[tuple[str, ...]]


class Table(NamedTuple):
    """A table of the page: the columns that are compared, and how the same rows are found in what helm renders."""

    columns: tuple[str, ...]
    rendered: Any


def files(mode: str) -> Rows:
    """What is mounted where, and of what kind it is."""
    pod = pod_of(render(merged(MODES[mode], CALLERS)))
    sources = {volume["name"]: source_of(volume) for volume in pod["volumes"]}
    return {
        (c["name"], m["mountPath"], sources[m["name"]], "read" if m.get("readOnly") else "read and write")
        for c in (*pod["containers"], *pod["initContainers"])
        for m in c["volumeMounts"]
    }


def source_of(volume: dict[str, Any]) -> str:
    (kind,) = volume.keys() - {"name"}
    if kind == "emptyDir":
        assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Mi"}
    return {"emptyDir": "memory", "secret": "Secret", "configMap": "ConfigMap", "projected": "token"}[kind]


def settings(mode: str) -> Rows:
    """The security contexts and what stands beside them; nothing of the host."""
    pod = pod_of(render(MODES[mode]))
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"}
    fields = {"automountServiceAccountToken": pod["automountServiceAccountToken"], **pod["securityContext"]}
    contexts = [container["securityContext"] for container in (*pod["containers"], *pod["initContainers"])]
    assert all(context == contexts[0] for context in contexts)
    found = [("Pod", field, value) for field, value in fields.items()]
    found += [("container", field, value) for field, value in contexts[0].items()]
    return {(where, field, json.dumps(value)) for where, field, value in found}


def rights(mode: str) -> Rows:
    """Every rule of every role, and whose it is."""
    objects = render(MODES[mode])
    accounts = {NAME: "the release's", f"{NAME}-test": "of helm test"}
    return {
        (accounts[role["metadata"]["name"]], resource, name or f"any in {role['metadata']['namespace']}", verbs(rule))
        for role in objects
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def verbs(rule: dict[str, Any]) -> str:
    return ", ".join(sorted(rule["verbs"]))


def policies(mode: str) -> Rows:
    """Each ValidatingAdmissionPolicy, and the value that leaves it out."""
    objects = [o for o in render(MODES[mode]) if o["kind"] == "ValidatingAdmissionPolicy"]
    values = {
        name: value
        for value in ("policies.certs", "policies.wholeNode")
        for name in names(objects) - names(render(merged(MODES[mode], at(value, False))))
    }
    return {
        (
            o["metadata"]["name"],
            ", ".join(rule["operations"]),
            ", ".join(rule["resources"]),
            values[o["metadata"]["name"]],
        )
        for o in objects
        for rule in o["spec"]["matchConstraints"]["resourceRules"]
    }


def names(objects: list[dict[str, Any]]) -> set[str]:
    return {o["metadata"]["name"] for o in objects}


def ports(mode: str) -> Rows:
    """Each port of a container that the NetworkPolicy opens, from where, and the values that change either."""
    return {
        (str(number), value_of(number, mode), container, source, narrowing(name, mode))
        for name, (number, container) in open_ports(MODES[mode]).items()
        for source in ["everywhere" if ingress(MODES[mode])[name] is None else "some"]
    }


def open_ports(values: dict[str, Any]) -> dict[str, tuple[int, str]]:
    """Name of a port -> its number and its container. The policy opens these and no others."""
    found = {
        port["name"]: (port["containerPort"], container["name"])
        for container in pod_of(render(values))["containers"]
        for port in container["ports"]
    }
    assert found.keys() == ingress(values).keys()
    return found


def ingress(values: dict[str, Any]) -> dict[str, Any]:
    """Name of a port -> the peers that it is open to; None: all."""
    spec = one(render(values), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    return {port["port"]: rule.get("from") for rule in spec["ingress"] for port in rule["ports"]}


def value_of(number: int, mode: str) -> str:
    """The value whose change moves the port."""
    found = [
        value
        for value in ("webhook.port", "metrics.port", "metrics.certsPort")
        if number not in {n for n, _ in open_ports(merged(MODES[mode], at(value, OTHERS[value]))).values()}
    ]
    return ", ".join(found)


def narrowing(name: str, mode: str) -> str:
    """The value that limits who reaches the port."""
    found = [
        value
        for value in ("networkPolicy.webhookFrom", "networkPolicy.metricsFrom")
        if ingress(merged(MODES[mode], at(value, OTHERS[value])))[name] == OTHERS[value]
    ]
    return ", ".join(found)


def egress(mode: str) -> Rows:
    """What the NetworkPolicy lets out, and the value that limits where to."""
    value = "networkPolicy.apiServerCIDRs"
    allowed = one(render(MODES[mode]), "NetworkPolicy")["spec"]["egress"]
    narrow = one(render(merged(MODES[mode], at(value, OTHERS[value]))), "NetworkPolicy")["spec"]["egress"]
    if not allowed:
        assert narrow == []
        return {("nowhere", "none", "")}
    (rule,) = allowed
    to = "everywhere" if "to" not in rule else "some"
    return {(to, ", ".join(str(port["port"]) for port in rule["ports"]), value if "to" in narrow[0] else "")}


def pod_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    pod: dict[str, Any] = one(objects, "Deployment")["spec"]["template"]["spec"]
    return pod


TABLES = {
    "Files": Table(("container", "path", "source", "access"), files),
    "Settings": Table(("where", "field", "value"), settings),
    "Rights": Table(("account", "kind", "name", "verbs"), rights),
    "Admission policies": Table(("policy", "operations", "resources", "value"), policies),
    "Ports": Table(("port", "value", "container", "from", "narrowed by"), ports),
    "Egress": Table(("to", "ports", "narrowed by"), egress),
}


@functools.cache
def rendered(heading: str, mode: str) -> Rows:
    """What the table ought to say for the mode."""
    found: Rows = TABLES[heading].rendered(mode)
    return found


def documented(text: str, heading: str, mode: str) -> Rows:
    """The compared columns of a section's table, of those rows that are for the mode."""
    columns = TABLES[heading].columns
    return {tuple(row[column] for column in columns) for row in rows(text, heading) if mode in modes(row)}


def rows(text: str, heading: str) -> Iterator[dict[str, str]]:
    """The table below a heading, row by row, without the marks of code."""
    section = text.split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    first, _, *others = (cells(line) for line in re.findall(r"^\|.*\|$", section, re.MULTILINE))
    for row in others:
        found = dict(zip(first, row, strict=True))
        if "kind" in found:
            found["kind"] = f"{found['kind'].lower()}s"
        yield found


def cells(line: str) -> list[str]:
    return [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]


def modes(row: dict[str, str]) -> set[str]:
    """The modes that a row is for; a table without the column is for all."""
    given = row.get("tls.mode", "all")
    found = set(MODES) if given == "all" else set(given.split(", "))
    assert found <= set(MODES), row
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("heading", TABLES)
def test_a_table_says_what_is_rendered(heading: str, mode: str) -> None:
    """No row too many, none too few, and each cell that can be compared is right."""
    assert documented(PAGE.read_text(), heading, mode) == rendered(heading, mode)


@pytest.mark.parametrize("heading", TABLES)
def test_every_row_counts(heading: str) -> None:
    """Without any one of its rows the table would not pass."""
    text = PAGE.read_text()
    section = text.split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    lines = re.findall(r"^\|.*\|$\n", section, re.MULTILINE)[2:]
    assert lines
    for line in lines:
        less = text.replace(section, section.replace(line, "", 1), 1)
        assert any(documented(less, heading, mode) != rendered(heading, mode) for mode in MODES), line


def test_the_release_of_the_page_is_the_one_compared() -> None:
    """Names on the page are those of a release called as the page installs it."""
    assert f"- name: {NAME}.{NAMESPACE}.svc\n" in PAGE.read_text()
