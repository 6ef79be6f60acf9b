"""Manifests as a user would write them, from which reviews are recorded and cluster runs start. Pure."""

from typing import Any

Object = dict[str, Any]

IMAGE = "registry.example/train/trainer:2.4.1"
TYPE = "tpu-v4-16"
ANNOTATED = {"accel.io/type": TYPE}


def container(name: str = "trainer") -> Object:
    """A typical container of a training job: a command line, variables, a mount, CPU and memory.

    The review of a JobSet's Pod with one of these has 7 kB; most of it is added by JobSet, the Job controller and the
    API server.
    """
    return {
        "name": name,
        "image": IMAGE,
        "command": ["python3", "-m", "train.main"],
        "args": ["--config=configs/7b.yml", "--steps=100000"],
        "env": [{"name": "RUN_NAME", "value": "llm-7b-base"}, {"name": "CHECKPOINTS", "value": "gs://example/llm-7b"}],
        "resources": {"requests": {"cpu": "24", "memory": "96Gi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/train"}],
    }


def pod_spec(containers: int = 1) -> Object:
    """A container named trainer, and further ones."""
    names = ["trainer", *(f"side-{number}" for number in range(1, containers))]
    return {
        "restartPolicy": "Never",
        "containers": [container(name) for name in names],
        "volumes": [{"name": "config", "configMap": {"name": "train"}}],
    }


def pod(annotations: Object, containers: int = 1) -> Object:
    """A Pod with a generated name."""
    metadata = {"generateName": "train-", "labels": {"app": "train"}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(containers)}


def job_template(annotations: Object, hosts: int) -> Object:
    """The template of an Indexed Job of `hosts` Pods, with annotations on the pod template."""
    template = {"metadata": {"labels": {"app": "train"}, "annotations": annotations}, "spec": pod_spec()}
    numbers = {"parallelism": hosts, "completions": hosts, "completionMode": "Indexed", "backoffLimit": 0}
    return {"spec": {**numbers, "template": template}}


def jobset(name: str, replicated: list[Object], annotations: Object | None = None) -> Object:
    """A JobSet of these replicated jobs."""
    metadata = {"name": name, "annotations": annotations or {}}
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata}
    return {**body, "spec": {"replicatedJobs": replicated}}


def slices(annotations: Object, hosts: int, replicas: int, name: str = "slice") -> Object:
    """A replicated job: `replicas` Jobs of `hosts` Pods each."""
    return {"name": name, "replicas": replicas, "template": job_template(annotations, hosts)}
