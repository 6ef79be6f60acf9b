"""Reads the packaged catalogue and the site config from disk. The only place that knows where they are."""

from importlib import resources
from pathlib import Path

from webhook.core.site import Site
from webhook.core.yaml import file_limits
from webhook.errors import BadConfig


def builtin() -> tuple[tuple[str, bytes], ...]:
    """The files of the built-in catalogue: (name, YAML bytes), sorted by name."""
    folder = resources.files("webhook") / "data"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    return tuple((file.name, file.read_bytes()) for file in files)


def load(path: str | Path | None = None) -> Site:
    """The site described by a config file; without one, all defaults. Raises `BadConfig`."""
    if path is None:
        return Site.parse(b"", "defaults", builtin())
    try:
        with Path(path).open("rb") as file:
            data = file.read(file_limits.CONFIG + 1)
    except OSError as error:
        raise BadConfig(f"{path}: {error.strerror or error}") from None
    return Site.parse(data, str(path), builtin())
