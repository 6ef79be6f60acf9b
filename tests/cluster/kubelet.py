"""Runs pods as local processes: the part of a kubelet that the service's own pods need, on loopback.

    kubelet = Kubelet(cluster, namespace, "app.kubernetes.io/name=accel-injector", directory)
    kubelet.sync()      # start what is new, end what is gone, renew mounted files, report readiness

A container becomes a process with its own command, arguments, environment and mounted files: ConfigMaps, Secrets,
projected tokens and empty directories become folders below the pod's own, laid out as a kubelet does it, and where
an argument or a variable names a mount path or a container port, it gets the local one. There is no isolation: what
a security context forbids is not forbidden here. Call `sync` from the main thread (see process.py).
"""

import base64
import json
import os
import re
import secrets
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.checkout import ROOT

from .commands import ISSUER
from .controlplane import ControlPlane, expect
from .process import ClusterError, Process, answers, free_port

IN_USE = "Address already in use"


@dataclass
class RunningPod:
    """A pod that runs here: what it is, where its files are, its processes by container, its ports by name."""

    object: dict[str, Any]
    root: Path
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    ready: bool = False

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def containers(self) -> list[dict[str, Any]]:
        return list(self.object["spec"]["containers"])

    def volume(self, name: str) -> Path:
        """The local folder of one of the pod's volumes."""
        return self.root / "volumes" / name

    def probe(self, kind: str) -> str:
        """URL of the first container's probe (readinessProbe, livenessProbe); "" where there is none."""
        if kind not in self.containers[0]:
            return ""
        get = self.containers[0][kind]["httpGet"]
        return f"http://127.0.0.1:{self.ports[get['port']]}{get['path']}"

    @property
    def alive(self) -> bool:
        return any(process.alive for process in self.processes.values())


class Kubelet:
    """Keeps the processes of the selected pods as the API server has them."""

    def __init__(self, cluster: ControlPlane, namespace: str, selector: str, directory: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.selector = selector
        self.directory = directory
        self.pods: dict[str, RunningPod] = {}
        self.ending: list[RunningPod] = []
        self._files: dict[Path, dict[str, bytes]] = {}

    def sync(self) -> None:
        """Do what is to be done now, without waiting. ClusterError where a container died by itself."""
        found = {pod["metadata"]["name"]: pod for pod in self.cluster.pods(self.namespace, self.selector)}
        for name in [name for name in self.pods if is_going(found.get(name))]:
            self._end(self.pods.pop(name))
        for name, pod in found.items():
            if not is_going(pod) and name not in self.pods:
                self.pods[name] = self._admit(pod)
        for pod in self.pods.values():
            self._mount(pod)
            self._run(pod)
            self._report(pod)
        for pod in [pod for pod in self.ending if not pod.alive]:
            self.ending.remove(pod)
            self._forget(pod, found)

    def close(self) -> None:
        """End every process, at once."""
        for pod in (*self.pods.values(), *self.ending):
            for process in pod.processes.values():
                process.signal(signal.SIGKILL)
                process.reap(5)
        self.pods.clear()
        self.ending.clear()

    def _admit(self, pod: dict[str, Any]) -> RunningPod:
        running = RunningPod(pod, self.directory / pod["metadata"]["name"])
        running.root.mkdir(parents=True)
        for container in running.containers:
            self._give_ports(running, container)
        return running

    def _give_ports(self, pod: RunningPod, container: Mapping[str, Any]) -> None:
        for port in container.get("ports", ()):
            pod.ports[port.get("name", str(port["containerPort"]))] = free_port()

    def _end(self, pod: RunningPod) -> None:
        for process in pod.processes.values():
            process.signal(signal.SIGTERM)
        self.ending.append(pod)

    def _forget(self, pod: RunningPod, found: Mapping[str, Any]) -> None:
        """A pod on a node stays until its kubelet says that it has ended."""
        for process in pod.processes.values():
            process.reap(0)
        if pod.name in found:
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod.name}"
            self.cluster.request("DELETE", path, {"gracePeriodSeconds": 0})

    # --- processes -------------------------------------------------------------------------------------------------

    def _run(self, pod: RunningPod) -> None:
        for container in pod.containers:
            process = pod.processes.get(container["name"])
            if process and process.died and IN_USE in process.tail():
                self._give_ports(pod, container)  # another program was quicker
                process = None
            if process and process.died and pod.object["spec"]["restartPolicy"] == "Always":
                raise ClusterError(process.report())
            if process and (process.alive or process.died):
                continue  # it runs, or it was to run once
            if process:  # somebody here ended it on purpose: a kubelet starts it again
                pod.restarts[container["name"]] = pod.restarts.get(container["name"], 0) + 1
            name = f"{pod.name}-{container['name']}"
            command, env = self.command(pod, container), self.environment(pod, container)
            pod.processes[container["name"]] = Process(name, command, pod.root / f"{container['name']}.log", env)

    def command(self, pod: RunningPod, container: Mapping[str, Any]) -> list[str]:
        """The container's command and arguments, its paths and ports made local."""
        command = container.get("command") or entrypoint()
        program = shutil.which(command[0], path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        if program is None:
            raise ClusterError(f"{pod.name}: {command[0]} is not on PATH")
        return [program, *(self._local(pod, container, text) for text in [*command[1:], *container.get("args", ())])]

    def environment(self, pod: RunningPod, container: Mapping[str, Any]) -> dict[str, str]:
        """What the container's process sees, and nothing of ours: its own variables and the API server's address."""
        env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(pod.root), "LANG": "C.UTF-8"}
        for variable in container.get("env", ()):
            value = variable.get("value", "")
            if "valueFrom" in variable:
                value = field_of(pod.object, variable["valueFrom"]["fieldRef"]["fieldPath"])
            env[variable["name"]] = self._local(pod, container, value)
        env |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.cluster.port)}
        return env

    def _local(self, pod: RunningPod, container: Mapping[str, Any], text: str) -> str:
        if text == "--host=":
            return "--host=127.0.0.1"  # every address, in a pod; loopback, here
        text = re.sub(r"(?<==)(?=:\d+$)", "127.0.0.1", text)
        for port in container.get("ports", ()):
            local = pod.ports[port.get("name", str(port["containerPort"]))]
            text = re.sub(rf"(?<=[=:]){port['containerPort']}$", str(local), text)
        mounts = sorted(container.get("volumeMounts", ()), key=lambda mount: -len(mount["mountPath"]))
        for mount in mounts:
            text = re.sub(rf"(?<![^=:]){re.escape(mount['mountPath'])}(?=/|$)", str(pod.volume(mount["name"])), text)
        return text

    # --- mounted files ---------------------------------------------------------------------------------------------

    def _mount(self, pod: RunningPod) -> None:
        for volume in pod.object["spec"].get("volumes", ()):
            folder = pod.volume(volume["name"])
            if "emptyDir" in volume:
                folder.mkdir(parents=True, exist_ok=True)
            elif folder not in self._files or "projected" not in volume:  # tokens outlive any test
                files = self._content(pod, volume)
                if files != self._files.get(folder):
                    publish(folder, files)
                    self._files[folder] = files

    def _content(self, pod: RunningPod, volume: Mapping[str, Any]) -> dict[str, bytes]:
        if "projected" in volume:
            parts = (self._content(pod, source) for source in volume["projected"]["sources"])
            return {name: data for part in parts for name, data in part.items()}
        if "serviceAccountToken" in volume:
            return {volume["serviceAccountToken"]["path"]: self._token(pod).encode()}
        if "downwardAPI" in volume:
            items = volume["downwardAPI"]["items"]
            return {i["path"]: field_of(pod.object, i["fieldRef"]["fieldPath"]).encode() for i in items}
        kind = "configMap" if "configMap" in volume else "secret"
        source = volume[kind]
        name = source.get("name") or source["secretName"]
        found = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/{kind.lower()}s/{name}").get("data") or {}
        data = {k: base64.b64decode(v) if kind == "secret" else v.encode() for k, v in found.items()}
        items = source.get("items") or [{"key": key, "path": key} for key in data]
        return {item["path"]: data[item["key"]] for item in items}

    def _token(self, pod: RunningPod) -> str:
        account = pod.object["spec"]["serviceAccountName"]
        metadata = pod.object["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        body = {"spec": {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": bound}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        return str(expect(self.cluster.request("POST", path, body), f"a token for {pod.name}")["status"]["token"])

    # --- status ----------------------------------------------------------------------------------------------------

    def _report(self, pod: RunningPod) -> None:
        if pod.object["spec"]["restartPolicy"] == "Never" and not pod.alive:
            codes = [process._popen.returncode for process in pod.processes.values()]
            self.patch_status(pod, "Failed" if any(codes) else "Succeeded", ready=False)
            return
        url = pod.probe("readinessProbe")
        running = all(process.alive for process in pod.processes.values())
        ready = running and (not url or answers(url))
        if ready != pod.ready:
            self.patch_status(pod, "Running", ready)
            pod.ready = ready

    def patch_status(self, pod: RunningPod, phase: str, ready: bool) -> None:
        """Write what a kubelet would write."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        facts = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
        conditions = [{"type": t, "status": str(v), "lastTransitionTime": now} for t, v in facts.items()]
        statuses = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": pod.restarts.get(container["name"], 0),
            }
            for container in pod.containers
        ]
        body = {"status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod.name}/status"
        answer = self.cluster.request("PATCH", path, body)
        if answer.status != 404:  # it was deleted meanwhile
            expect(answer, f"the status of {pod.name}")


def is_going(pod: Mapping[str, Any] | None) -> bool:
    """Whether a pod is gone, is being deleted, or has ended."""
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return True
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def field_of(pod: Mapping[str, Any], path: str) -> str:
    """What the downward API gives: a field of the pod, such as metadata.namespace."""
    if path == "status.podIP":
        return "127.0.0.1"
    value: Any = pod
    for key in path.split("."):
        value = value[key]
    return str(value)


def publish(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files as a kubelet does: they change all at once, by one symlink that is renamed into place."""
    version = folder / f"..{secrets.token_hex(6)}"
    version.mkdir(parents=True)
    for name, data in files.items():
        (version / name).write_bytes(data)
    pointer = folder / "..data"
    before = pointer.resolve() if pointer.is_symlink() else None
    new = folder / "..data_tmp"
    new.symlink_to(version.name)
    os.replace(new, pointer)
    link(folder, files)
    if before:
        shutil.rmtree(before)


def link(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def entrypoint() -> list[str]:
    """The image's entry point, for containers without a command."""
    found = re.search(r"^ENTRYPOINT (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found, "the Dockerfile has no ENTRYPOINT in its exec form"
    return [str(part) for part in json.loads(found[1])]
