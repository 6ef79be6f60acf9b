"""Shared memory at /dev/shm. Pure."""

from collections.abc import Iterator
from typing import Final

from webhook.core.patch import Append, Edit
from webhook.core.resolution import Resolution
from webhook.core.rules.rule import Found, Rule, container_path
from webhook.core.schema.pod import VolumeMount
from webhook.core.template import PodTemplate

SHM_VOLUME: Final = "accel-shm"
SHM: Final = "/dev/shm"  # noqa: S108 (a mount point in the container, not a file of ours)


def shared_memory(template: PodTemplate, resolution: Resolution) -> Found:
    """An in-memory emptyDir at /dev/shm, for each container with devices that has nothing mounted there."""
    size = resolution.request.shm or _site_shm(resolution)
    return () if size == "false" else _shared(template, resolution, size)


def _shared(template: PodTemplate, resolution: Resolution, size: str) -> Iterator[Edit]:
    bare = [
        h for h in resolution.device_containers if not any(m and _is_shm(m) for m in h.container.volumeMounts or ())
    ]
    if not bare:
        return
    if not any(v and v.name == SHM_VOLUME for v in template.spec.volumes or ()):
        directory = {"medium": "Memory"} if size == "true" else {"medium": "Memory", "sizeLimit": size}
        yield Append(("spec", "volumes"), {"name": SHM_VOLUME, "emptyDir": directory}, key=("name",))
    for device_container in bare:
        mount = {"name": SHM_VOLUME, "mountPath": SHM}
        yield Append((*container_path(device_container), "volumeMounts"), mount, key=("mountPath",))


def _is_shm(mount: VolumeMount) -> bool:
    return (mount.mountPath or "").rstrip("/") == SHM


def _site_shm(resolution: Resolution) -> str:
    """The site's default, as a value of the annotation."""
    default = resolution.site.config.shared_memory
    return str(default).lower() if isinstance(default, bool) else default


def _why(_template: PodTemplate, resolution: Resolution) -> str:
    shm = resolution.request.shm
    return f"accel.io/shm: {shm}" if shm else f"site config sharedMemory: {resolution.site.config.shared_memory}"


def _why_not(_template: PodTemplate, resolution: Resolution) -> str:
    shm = resolution.request.shm
    return f"something is already mounted there (accel.io/shm: {shm})" if shm not in (None, "false") else ""


SHARED_MEMORY: Final = Rule(SHM, shared_memory, _why, _why_not)
