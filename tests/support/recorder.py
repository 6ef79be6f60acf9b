"""A logger that keeps its lines instead of writing them."""

from typing import Any


class Recorder:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def debug(self, event: str, **fields: Any) -> None:
        self.lines.append({"level": "debug", "message": event, **fields})

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append({"level": "info", "message": event, **fields})

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append({"level": "warning", "message": event, **fields})

    def error(self, event: str, **fields: Any) -> None:
        self.lines.append({"level": "error", "message": event, **fields})

    def is_enabled_for(self, _level: int) -> bool:
        return True
