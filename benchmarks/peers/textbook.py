"""A webhook as in Python tutorials: FastAPI, the object as a dict, deepcopy, mutate, jsonpatch's diff.

    python -m benchmarks.peers.textbook --port N --cert-file F --key-file F

It does what accel-injector does for the recorded TPU Pods, and no more. It exists only for comparison.
"""

import argparse
import base64
import copy
import json
from typing import Any

import jsonpatch
import uvicorn
from fastapi import FastAPI

TPU = "google.com/tpu"
JOBSET = "jobset.sigs.k8s.io/"
JOB = "batch.kubernetes.io/"
POOL = {
    "topologyKey": "cloud.google.com/gke-nodepool",
    "labelSelector": {"matchExpressions": [{"key": "accel.io/multi-host", "operator": "Exists"}]},
}
SHAPES: dict[str, dict[str, Any]] = {
    "tpu-v4-8": {"accelerator": "tpu-v4-podslice", "topology": "2x2x1", "chips": "4", "hosts": 1},
    "tpu-v4-16": {"accelerator": "tpu-v4-podslice", "topology": "2x2x2", "chips": "4", "hosts": 2},
}

app = FastAPI()


@app.post("/mutate")
def mutate(review: dict[str, Any]) -> dict[str, Any]:
    """Answer one AdmissionReview."""
    request = review["request"]
    pod = request["object"]
    response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
    name = (pod["metadata"].get("annotations") or {}).get("accel.io/type")
    if name in SHAPES:
        changed = copy.deepcopy(pod)
        inject(changed, name, SHAPES[name])
        patch = jsonpatch.make_patch(pod, changed)
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(patch.patch).encode()).decode()
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def inject(pod: dict[str, Any], name: str, shape: dict[str, Any]) -> None:
    """Give the Pod's first container one host's chips, and the Pod their node selector and toleration."""
    spec, annotations = pod["spec"], pod["metadata"]["annotations"]
    annotations["accel.io/injected"] = name
    container = spec["containers"][0]
    for part in ("limits", "requests"):
        container.setdefault("resources", {}).setdefault(part, {})[TPU] = shape["chips"]
    selector = spec.setdefault("nodeSelector", {})
    selector["cloud.google.com/gke-tpu-accelerator"] = shape["accelerator"]
    selector["cloud.google.com/gke-tpu-topology"] = shape["topology"]
    tolerations = spec.setdefault("tolerations", [])
    if not any(toleration.get("key") == TPU for toleration in tolerations):
        tolerations.append({"key": TPU, "operator": "Exists"})
    if shape["hosts"] > 1:
        pod["metadata"].setdefault("labels", {})["accel.io/multi-host"] = "true"
        affinity = spec.setdefault("affinity", {})
        required(affinity, "podAffinity").append({**POOL, "matchLabelKeys": [JOB + "job-name"]})
        apart = {**POOL, "namespaceSelector": {}, "mismatchLabelKeys": [JOB + "controller-uid"]}
        required(affinity, "podAntiAffinity").append(apart)
    replicas = annotations.get(JOBSET + "replicatedjob-replicas", "1")
    if shape["hosts"] > 1 and replicas != "1" and replicas == annotations.get(JOBSET + "global-replicas"):
        container.setdefault("env", []).extend(multislice(annotations, spec["subdomain"]))


def required(affinity: dict[str, Any], kind: str) -> list[Any]:
    """The list of required terms."""
    terms: list[Any] = affinity.setdefault(kind, {}).setdefault("requiredDuringSchedulingIgnoredDuringExecution", [])
    return terms


def multislice(annotations: dict[str, str], subdomain: str) -> list[dict[str, Any]]:
    """The variables that the slices of a JobSet need to find each other."""
    prefix = f"{annotations[JOBSET + 'jobset-name']}-{annotations[JOBSET + 'replicatedjob-name']}"
    return [
        from_annotation("MEGASCALE_NUM_SLICES", "replicatedjob-replicas"),
        from_annotation("MEGASCALE_SLICE_ID", "job-index"),
        {"name": "MEGASCALE_COORDINATOR_ADDRESS", "value": f"{prefix}-0-0.{subdomain}"},
    ]


def from_annotation(variable: str, key: str) -> dict[str, Any]:
    path = f"metadata.annotations['{JOBSET}{key}']"
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cert-file", required=True)
    parser.add_argument("--key-file", required=True)
    given = parser.parse_args()
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=given.port,
        ssl_certfile=given.cert_file,
        ssl_keyfile=given.key_file,
        access_log=False,
        log_level="warning",
    )
