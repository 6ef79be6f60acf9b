"""What the site config of a cluster means: its bytes in, a frozen `Site` out. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import final

from webhook.core.catalogue.catalogue import Catalogue
from webhook.core.schema.site import (
    QUEUES,
    Config,
    Device,
    HostProfile,
    LegacyAccelerator,
    Library,
    Mode,
    QueueKey,
    SchedulerDefault,
)
from webhook.core.yaml import decode


@final
@dataclass(frozen=True)
class Profile:
    """A host profile ready for use, whatever its source format."""

    name: str
    types: tuple[str, ...]
    resource: str  # of a legacy entry, which applies to it whatever the type; else empty
    modes: tuple[Mode, ...]
    namespaces: tuple[str, ...]
    devices: tuple[Device, ...] = ()
    optional_devices: tuple[Device, ...] = ()
    libraries: tuple[Library, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    runtime_class: str = ""
    privileged: bool = False
    exclusive_node: bool = False


@final
@dataclass(frozen=True)
class Site:
    """One cluster's decisions: the config, the catalogue on its platform, and what follows from both."""

    config: Config
    catalogue: Catalogue
    profiles: tuple[Profile, ...]  # host profiles by name, then the legacy entries by resource
    queues: Mapping[str, QueueKey]  # where each scheduler reads a queue
    detect: frozenset[str]  # resources that apply a profile without an annotation

    @classmethod
    def parse(cls, data: bytes, filename: str, builtin: Iterable[tuple[str, bytes]]) -> "Site":
        """From the file's bytes (empty: all defaults) and the built-in catalogue files. Raises `BadConfig`."""
        return cls.of(decode.decode(data, filename, Config), filename, builtin)

    @classmethod
    def of(cls, config: Config, filename: str, builtin: Iterable[tuple[str, bytes]]) -> "Site":
        """From a config that is decoded already. Raises `BadConfig`."""
        catalogue = Catalogue.parse(
            builtin,
            platform=config.platform,
            auto_mode=config.eks.auto_mode,
            gfd=config.gfd,
            legacy_nodes=config.tpu.legacy_nodes,
            legacy_version=config.tpu.legacy_version,
            extra=config.catalogue,
            extra_name=f"{filename}: $.catalogue",
        )
        own = (_own(name, config.host_profiles[name]) for name in sorted(config.host_profiles))
        legacy = (_legacy(resource, config.accelerators[resource]) for resource in sorted(config.accelerators))
        return cls(
            config,
            catalogue,
            (*own, *legacy),
            {**QUEUES, **config.schedulers.queues},
            frozenset((*config.detect, *config.accelerators)),
        )

    def host_profiles(self, type_name: str, resource: str, mode: str, namespace: str) -> tuple[Profile, ...]:
        """The profiles of a type in a mode and a namespace, sorted by name."""
        return tuple(
            profile
            for profile in self.profiles
            if mode in profile.modes
            and (profile.resource == resource if profile.resource else matches(type_name, profile.types))
            and matches(namespace, profile.namespaces)
        )

    def detected(self, resource: str, namespace: str) -> tuple[Profile, ...]:
        """The profiles that a resource in a container's limits applies by itself: those of its any-model type."""
        if resource not in self.detect:
            return ()
        return self.host_profiles(self.catalogue.any_model(resource), resource, "plugin", namespace)

    def scheduler_default(self, type_name: str, namespace: str) -> SchedulerDefault | None:
        """The first of `schedulers.defaults` that applies to this type in this namespace."""
        for default in self.config.schedulers.defaults:
            if matches(type_name, default.types) and matches(namespace, default.namespaces):
                return default
        return None

    def placement_names(self, namespace: str) -> tuple[str, ...]:
        """The placements that a namespace may use, by name."""
        every = sorted(self.config.placements)
        return tuple(name for name in every if matches(namespace, self.config.placements[name].namespaces))


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether `name` matches one of the shell patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _own(name: str, profile: HostProfile) -> Profile:
    return Profile(
        name=name,
        types=profile.types,
        resource="",
        modes=profile.modes,
        namespaces=profile.namespaces,
        devices=tuple(_device(device) for device in profile.devices),
        optional_devices=tuple(_device(device) for device in profile.optional_devices),
        libraries=profile.libraries,
        env=tuple(sorted(profile.env.items())),
        runtime_class=profile.runtime_class_name,
        privileged=profile.privileged,
        exclusive_node=profile.exclusive_node,
    )


def _device(written: str | Device) -> Device:
    return Device(path=written) if isinstance(written, str) else written


def _legacy(resource: str, entry: LegacyAccelerator) -> Profile:
    return Profile(
        name=resource,
        types=(),
        resource=resource,
        modes=("plugin",),
        namespaces=("*",),
        libraries=tuple(Library(host_path=v.host_path, mount_path=v.mount_path) for v in entry.volumes),
        env=tuple((variable.name, variable.value) for variable in entry.env_vars),
    )
