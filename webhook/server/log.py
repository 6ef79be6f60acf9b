"""The log: one JSON object per line on stderr. Decides nothing.

Much of it is untrusted text. A line is bounded, and nothing in it can control a terminal or look like another line:
what is not printable is escaped as in JSON, so that a JSON parser restores it.
"""

import json
import logging
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any, Protocol

import msgspec

LONGEST_FIELD = 16 * 1024
"""Characters of one field; a longer one loses its middle. A traceback has a few thousand."""


class Log(Protocol):
    """What the modules need from a logger: an event in a few words, and facts as fields."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...
    def is_enabled_for(self, level: int) -> bool: ...


class Stream(Protocol):
    """Where lines are written."""

    def write(self, line: bytes, /) -> object: ...
    def flush(self) -> object: ...


class _Lossy:
    """A stream that may lose lines: a full disk or a closed pipe must not keep reviews from being answered."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(line)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def configure(level: str, stream: Stream | None = None) -> Log:
    """The process's logger at `level` ("debug", "info", ...); libraries' records go there too. It never raises: a line
    that cannot be written is lost."""
    structlog = _structlog()
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.EventRenamer("message"),
            _bounded,
            structlog.processors.JSONRenderer(serializer=_encode),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(_Lossy(stream or sys.stderr.buffer)),
        cache_logger_on_first_use=False,
    )
    log: Log = structlog.get_logger().bind()  # bound once: the proxy would do so again for each line
    _adopt_libraries(log, number)
    return log


def _structlog() -> ModuleType:
    """structlog without rich, which it would import for coloured tracebacks. Those are not JSON, and the
    import takes most of the time between our start and the first response."""
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    try:
        import structlog
    finally:
        if sys.modules["rich"] is None:
            del sys.modules["rich"]
    return structlog


def cut(text: str, longest: int) -> str:
    """Untrusted text in a line: at most `longest` characters of it, and how many there were."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _bounded(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    for name, value in event.items():
        if isinstance(value, str) and len(value) > LONGEST_FIELD:
            half = LONGEST_FIELD // 2
            event[name] = f"{value[:half]}… ({len(value) - 2 * half} characters left out) …{value[-half:]}"
    return event


def _encode(event: dict[str, Any], **_: Any) -> bytes:
    try:
        line = msgspec.json.encode(event, enc_hook=str)
    except UnicodeEncodeError:  # half a surrogate pair, as in the name of a file that is not UTF-8
        line = json.dumps(event, default=str).encode()
    if line.isascii() and b"\x7f" not in line:
        return line
    return "".join(c if c.isprintable() else _escaped(c) for c in line.decode()).encode()


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else json.dumps(character)[1:-1]


def _adopt_libraries(log: Log, number: int) -> None:
    root = logging.getLogger()
    root.handlers[:] = [_Forward(log)]
    root.setLevel(max(number, logging.WARNING))


class _Forward(logging.Handler):
    """A library's log record, as one of our lines."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        say(self.format(record), logger=record.name)
