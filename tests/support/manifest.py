"""Manifests as text, before and after injection."""

from webhook import load
from webhook.core.site import Site
from webhook.manifest.inject import injected

SITE = load.load()

HEAD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    accel.io/type: nvidia-l4\n"
POD = HEAD + "spec:\n  containers:\n  - name: a\n    image: x\n"
ADDED = """\
    resources:
      limits:
        nvidia.com/gpu: "1"
      requests:
        nvidia.com/gpu: "1"
  nodeSelector:
    cloud.google.com/gke-accelerator: nvidia-l4
  tolerations:
  - key: nvidia.com/gpu
    operator: Exists
"""
INJECTED = "    accel.io/injected: nvidia-l4\n"
POD_AFTER = POD.replace("nvidia-l4\n", "nvidia-l4\n" + INJECTED) + ADDED

JOBSET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: s
  annotations:
    accel.io/type: {type}
spec:
  replicatedJobs:
"""


def after(text: str, site: Site = SITE) -> str:
    """The text after injection. A second injection must not change it."""
    found, _ = injected(text, site)
    assert found == injected(found, site)[0]
    return found


def only_added(before: str, now: str) -> bool:
    """Whether every line of `before` is still there, in order."""
    lines = iter(now.splitlines())
    return all(any(line == other for other in lines) for line in before.splitlines())
