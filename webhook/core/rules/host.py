"""What a container gets from its node by path: device files, driver libraries, variables. Pure.

Every path, variable and privilege here comes from a profile of the site config that the namespace may use.
Annotations only choose the mode: user text never becomes a path.
"""

import hashlib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from webhook.core.annotations import COUNT
from webhook.core.catalogue.catalogue import PART
from webhook.core.devices import DeviceContainer
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Amend, Append, Edit, Path, Put
from webhook.core.resolution import Resolution
from webhook.core.rules.placement import RUNTIME_CLASS, runtime_class
from webhook.core.rules.rule import Rule
from webhook.core.schema.pod import Container, EnvVar, Volume
from webhook.core.schema.site import Device
from webhook.core.site import Profile, Site, matches
from webhook.core.template import PodTemplate, first_user_of, labels_of

LIBRARY_PATH: Final = "LD_LIBRARY_PATH"
WHOLE_NODE: Final = "accel.io/whole-node"
HOSTNAME: Final = "kubernetes.io/hostname"
CHARACTER_DEVICE: Final = "CharDevice"
MAX_DEVICES: Final = 64
"""Device files of one Pod. An arbitrary limit: no machine in the catalogue has more than 16."""
APART: Final[dict[str, object]] = {
    "labelSelector": {"matchExpressions": [{"key": WHOLE_NODE, "operator": "Exists"}]},
    "namespaceSelector": {},
    "topologyKey": HOSTNAME,
}
"""The term that keeps Pods with whole nodes apart, in all namespaces. The chart's ValidatingAdmissionPolicy keeps
others from setting the label. If namespaces were selected here, the scheduler would retry a waiting Pod
only five minutes after its node is free.

Source: https://github.com/kubernetes/kubernetes/issues/141953
"""

ANYTHING: Final = ""
"""The hostPath type that the kubelet does not check.

Source: https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types
"""

ContainerProfiles = tuple[DeviceContainer, Sequence[Profile]]
"""A container, and the profiles that it gets."""

_PLAIN: Final = re.compile(
    r"(?:/[a-z0-9]++(?:-[a-z0-9]++)*+){2,}+"
)  # a single component could be another volume's: accel-shm
_LONGEST_NAME: Final = 63


@final
@dataclass(frozen=True)
class Mount:
    """A path of the node, where the container sees it, and what the kubelet checks before starting."""

    host_path: str
    mount_path: str
    type: str = ANYTHING
    read_only: bool = False


def host(template: PodTemplate, resolution: Resolution) -> Iterable[Edit | Warn]:
    """The profiles of the type: with devices in mode host, libraries and variables beside the device plugin."""
    if resolution.request.mode == "plugin" and not resolution.site.profiles:
        return ()
    profiles = _allowed(resolution)
    if not profiles:
        return ()
    found = apply_profiles(template, [(held, profiles) for held in resolution.device_containers])
    if not runtime_class(template, resolution):
        return found
    return [one for one in found if isinstance(one, Warn) or one.path != RUNTIME_CLASS]


def _allowed(resolution: Resolution) -> tuple[Profile, ...]:
    """The admin's profiles for this type, mode and namespace; without one, mode host is not allowed."""
    hardware, mode, site = resolution.accelerator, resolution.request.mode, resolution.site
    found = site.host_profiles(hardware.name, hardware.resource, mode, resolution.namespace)
    if mode == "plugin" or resolution.stored:
        return found
    if not found:
        namespace, valid = quoted(resolution.namespace), _modes(site, resolution.namespace)
        raise Denied("mode-not-allowed", value=mode, type=hardware.name, namespace=namespace, valid=valid)
    if PART in hardware.name:
        raise Denied("part-without-plugin", value=mode, type=hardware.name)
    _check_number(resolution)
    return found


def _check_number(resolution: Resolution) -> None:
    """Each device is a file that is listed, and the user chooses how many: so there is a maximum, for any type."""
    hardware, total = resolution.accelerator, sum(h.devices for h in resolution.device_containers)
    if total > MAX_DEVICES:
        facts = {"resource": hardware.resource, "type": hardware.name, "limit": MAX_DEVICES}
        raise Denied("too-many-devices", where=COUNT, value=total, **facts)


def _modes(site: Site, namespace: str) -> str:
    """What this namespace may use, without revealing what others may."""
    usable = [p for p in site.profiles if "host" in p.modes and matches(namespace, p.namespaces)]
    types = ", ".join(dict.fromkeys(name for profile in usable for name in profile.types))
    return f"plugin, or host for the types {types}" if types else "plugin"


def apply_profiles(template: PodTemplate, profiled: Sequence[ContainerProfiles]) -> Iterator[Edit | Warn]:
    """Everything in each container's profiles. Of two for one place the first wins.

    Warnings about mounts come with the mounts: Pods whose workload was injected already have them, without warnings.
    """
    volumes = _Volumes([v for v in template.spec.volumes or () if v is not None])
    mounted, devices = False, set[str]()
    for device_container, profiles, first in _numbered(profiled):
        privileged = _privileged(device_container.container, profiles)
        wanted, there = _wanted(device_container, profiles, first, privileged), _mounted(device_container)
        devices.update(m.host_path for m in wanted if not m.read_only)
        mounts = [mount for mount in wanted if _without_slash(mount.mount_path) not in there]
        for mount in mounts:
            yield from _mount(device_container, mount, volumes)
        yield from _variables(device_container, profiles)
        if privileged and _unsaid(device_container.container):
            yield Put(_path(device_container, "securityContext", "privileged"), True)
        if not privileged and any(not mount.read_only for mount in mounts):
            yield Warn("devices-closed", {"name": device_container.container.name})
        mounted = mounted or bool(mounts)
    _check_read_only(template, profiled, volumes, devices)
    yield from _runtime_class(template, [profile for _, profiles in profiled for profile in profiles])
    if mounted:
        yield Warn("host-path-policy")
    if any(profile.exclusive_node for _, profiles in profiled for profile in profiles):
        yield from _whole_node(template)


def _runtime_class(template: PodTemplate, profiles: Iterable[Profile]) -> Iterator[Edit]:
    found = next((profile.runtime_class for profile in profiles if profile.runtime_class), "")
    if found and not template.spec.runtimeClassName:
        yield Put(RUNTIME_CLASS, found)


def _numbered(profiled: Sequence[ContainerProfiles]) -> Iterator[tuple[DeviceContainer, Sequence[Profile], int]]:
    """Each container with the number of its first device: containers that run together do not share devices."""
    first = 0
    for device_container, profiles in profiled:
        if device_container.list_name == "containers":
            yield device_container, profiles, first
            first += device_container.devices
        else:
            yield device_container, profiles, 0  # init containers run before the others, and release their devices


def _mounted(device_container: DeviceContainer) -> set[str]:
    """Where something is already mounted: by the user, or by an earlier injection."""
    mounts = [m for m in device_container.container.volumeMounts or () if m is not None]
    return {_without_slash(m.mountPath) for m in mounts if m.mountPath is not None}


def _without_slash(path: str) -> str:
    return path.rstrip("/") or "/"


class _Volumes:
    """A template's volumes, including ours as they are added."""

    def __init__(self, present: Sequence[Volume]) -> None:
        self.paths: dict[str, str] = {}  # paths of the node, by volume name
        self.names = {v.name for v in present}
        self._by_path: dict[str, str] = {}
        for volume in present:
            if volume.name and volume.hostPath and volume.hostPath.path:
                self._know(volume.name, volume.hostPath.path)

    def _know(self, name: str, path: str) -> None:
        self.paths[name] = path
        self._by_path.setdefault(path, name)

    def named(self, path: str) -> str | None:
        """The volume, whatever its name, that is this path of the node."""
        return self._by_path.get(path)

    def add(self, mount: Mount) -> str:
        """A name for a new volume."""
        name = next(name for name in volume_names(mount) if name not in self.names)
        self.names.add(name)
        self._know(name, mount.host_path)
        return name


def _check_read_only(
    template: PodTemplate, profiled: Sequence[ContainerProfiles], volumes: _Volumes, devices: Collection[str]
) -> None:
    """Denies a writable mount of a profile's libraries: in any container, through any volume.

    The volume exists because of the profile, and its name is predictable: a container that mounts it
    itself could write to what the admin provides read-only. `devices` are paths that profiles provide for writing.
    """
    libraries = {library.host_path for _, profiles in profiled for p in profiles for library in p.libraries}
    paths = {name: path for name, path in volumes.paths.items() if path not in devices}
    guarded = {name: path for name, path in paths.items() if any(_is_within(path, one) for one in libraries)}
    for _, _, container in template.containers if guarded else ():
        for mount in container.volumeMounts or ():
            if mount is not None and mount.name in guarded and not mount.readOnly:
                where = f"container {quoted(container.name)}: the mount of volume {quoted(mount.name)}"
                raise Denied("writable-library", where=where, value=guarded[mount.name])


def _is_within(path: str, library: str) -> bool:
    """Whether a path of the node, however it is spelled, is the library or below it."""
    steps, above = _steps(path), _steps(library)
    return steps[: len(above)] == above


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step not in ("", ".")]


def _mount(device_container: DeviceContainer, mount: Mount, volumes: _Volumes) -> Iterator[Edit]:
    """A mount and its volume, unless there already is a volume for that path, whatever its name."""
    name = volumes.named(mount.host_path)
    if name is None:
        name = volumes.add(mount)
        source = {"path": mount.host_path, "type": mount.type}
        yield Append(("spec", "volumes"), {"name": name, "hostPath": source}, key=("name",))
    item: dict[str, object] = {"name": name, "mountPath": mount.mount_path}
    if mount.read_only:
        item["readOnly"] = True
    yield Append(_path(device_container, "volumeMounts"), item, key=("mountPath",))


def _wanted(
    device_container: DeviceContainer, profiles: Sequence[Profile], first: int, privileged: bool
) -> list[Mount]:
    """What a container gets, each path once.

    A device file must exist and be one, or the kubelet does not start the container. One that a node may lack
    cannot have that check, and without it the container runtime creates an empty directory where the file is missing.
    A privileged container has all device files of its node anyway, so optional ones need no mount there.
    Sources: https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types
    https://github.com/containerd/containerd/blob/1754af31/internal/cri/opts/spec_linux_opts.go (withMounts)
    """
    found: dict[str, Mount] = {}
    for profile in profiles:
        mounts = [
            Mount(path, path, CHARACTER_DEVICE) for path in _files(profile.devices, first, device_container.devices)
        ]
        if not privileged:
            mounts += [Mount(path, path) for path in _files(profile.optional_devices, first, device_container.devices)]
        mounts += [Mount(library.host_path, library.mount_path, read_only=True) for library in profile.libraries]
        for mount in mounts:
            found.setdefault(mount.mount_path, mount)
    return list(found.values())


def _files(devices: Sequence[Device], first: int, count: int) -> Iterator[str]:
    for device in devices:
        if device.per_device:
            yield from (f"{device.path}{number}" for number in range(first, first + count))
        else:
            yield device.path


def volume_names(mount: Mount) -> Iterator[str]:
    """Names for the volume, best first: `accel-dev-nvidia--uvm` for /dev/nvidia-uvm, then ones with digests.

    They are derived from the path in the container: so a Job that is applied again finds its volume, even if the admin
    has moved the files on the nodes since. Two paths never share a name: if the characters are not allowed, or a volume
    of the user has that name, a digest is used.
    """
    path = mount.mount_path
    spelled = "accel" + path.replace("-", "--").replace("/", "-")
    if _PLAIN.fullmatch(path) and len(spelled) <= _LONGEST_NAME:
        yield spelled
    legible = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-")[-40:].strip("-")
    for number in itertools.count():
        text = f"{mount.host_path}\n{path}\n{number}" if number else path
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        yield f"accel-{legible}-{digest}" if legible else f"accel-{digest}"


def _variables(device_container: DeviceContainer, profiles: Sequence[Profile]) -> Iterator[Edit | Warn]:
    """Variables that the container does not have; LD_LIBRARY_PATH is also prepended to the user's value."""
    ours = _merged(profiles)
    have = {e.name: (i, e) for i, e in enumerate(device_container.container.env or ()) if e is not None}
    path = _path(device_container, "env")
    if LIBRARY_PATH in ours and (LIBRARY_PATH in have or device_container.container.envFrom):
        yield from _library_path(path, have.get(LIBRARY_PATH), ours.pop(LIBRARY_PATH), device_container.container)
    missing = {name: value for name, value in ours.items() if name not in have}
    before = first_user_of(device_container.container, missing) if missing else None
    for name, value in missing.items():
        yield Append(path, {"name": name, "value": value}, key=("name",), before=before)


def _merged(profiles: Sequence[Profile]) -> dict[str, str]:
    """Each variable from the first profile that has it; LD_LIBRARY_PATH with the directories of all."""
    merged: dict[str, str] = {}
    for name, value in (variable for profile in profiles for variable in profile.env):
        if name == LIBRARY_PATH and name in merged:
            merged[name] = ":".join(dict.fromkeys((*merged[name].split(":"), *value.split(":"))))
        else:
            merged.setdefault(name, value)
    return merged


def _library_path(
    path: Path, there: tuple[int, EnvVar] | None, ours: str, container: Container
) -> Iterator[Edit | Warn]:
    """Ours in front of a literal value, once; a value from elsewhere cannot be read here, so it is kept.

    With only envFrom the variable may come from there, and ours would hide it: an entry of `env` wins.
    Source: https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/
    """
    if there is None or there[1].valueFrom is not None:
        yield Warn("library-path-kept", {"name": container.name, "ours": ours})
        return
    index, variable = there
    theirs = variable.value or ""
    missing = [part for part in ours.split(":") if part and part not in theirs.split(":")]
    if missing:
        value = ":".join((*missing, theirs) if theirs else missing)
        yield Amend(path, index, {"name": LIBRARY_PATH, "value": value}, key=("name",))


def _privileged(container: Container, profiles: Sequence[Profile]) -> bool:
    """Whether the container will run privileged: by the user's own setting, if any, else by a profile's.

    A mounted device file can be seen but not opened, unless the container is privileged or something on
    the node allows it in the device cgroup: https://github.com/kubernetes/kubernetes/issues/79090
    """
    context = container.securityContext
    if context is not None and context.privileged is not None:
        return context.privileged
    if context is not None and context.allowPrivilegeEscalation is False:
        return False  # the API server refuses the two together
    return any(profile.privileged for profile in profiles)


def _unsaid(container: Container) -> bool:
    return container.securityContext is None or container.securityContext.privileged is None


def _whole_node(template: PodTemplate) -> Iterator[Edit]:
    """No two such Pods on one node.

    Nothing counts devices without a resource, so two Pods would get the same files. Kubernetes has no
    field for an exclusive node; anti-affinity among these Pods, in all namespaces, is the closest that keeps
    devices apart and still allows DaemonSets. A term with anything more, or less, is not ours: one that also
    names a namespace, or another label, keeps nobody away. The admin guarantees, by `exclusiveNode: true`, that Pods
    which reach the devices in another way (a device plugin, their own hostPath) stay away.
    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
    """
    if labels_of(template.view.metadata).whole_node is None:
        yield Put(("metadata", "labels", WHOLE_NODE), "true")
    affinity = template.spec.affinity and template.spec.affinity.podAntiAffinity
    terms = (affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution) or ()
    if APART not in terms:
        path = ("spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        yield Append(path, APART, key=("labelSelector", "topologyKey"))


def _path(device_container: DeviceContainer, *segments: str) -> Path:
    return ("spec", device_container.list_name, device_container.index, *segments)


def _why(_template: PodTemplate, resolution: Resolution) -> str:
    return f"site config hostProfiles, mode {resolution.request.mode}"


def _why_not(template: PodTemplate, resolution: Resolution) -> str:
    hardware, mode, site = resolution.accelerator, resolution.request.mode, resolution.site
    profiles = site.host_profiles(hardware.name, hardware.resource, mode, resolution.namespace)
    return (
        f"there already; runtimeClassName {template.spec.runtimeClassName} is kept"
        if any(profile.runtime_class not in ("", template.spec.runtimeClassName) for profile in profiles)
        else ""
    )


HOST: Final = Rule("host devices and libraries", host, _why, _why_not)
