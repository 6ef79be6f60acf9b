"""Every error that a user caused, or can fix: its text is meant for that user, without a traceback.

    UserError
    ├── Denied            an object cannot be admitted as it is written   (core/messages.py, which builds its sentences)
    ├── BadReview         a body is not an AdmissionReview: HTTP 400, not a decision
    │   └── TooDeep       ... because it is nested too deeply to be read
    ├── BadYaml           a text is not YAML that kubectl would read
    ├── BadManifest       the same, with file, line and column
    ├── BadConfig         a site config or a catalogue cannot be used
    ├── BadSetting        a flag has an invalid value (exit code 2, as for an unknown flag)
    ├── Unreadable        a file cannot be read
    ├── Unusable          a watched file is missing or invalid
    │   └── BadPair       ... a certificate and a key that cannot serve now
    └── Failure           a command cannot do what was requested

Anything else, except OSError, is a bug of ours: HTTP 500, or "a bug" on the command line.
"""

LONGEST_TEXT = 1000
"""Characters of a one-line message. Longer ones quote somebody else's text."""


def printable(value: object) -> str:
    """Text that cannot break a line, a log or a terminal."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class UserError(Exception):
    """Base class of everything that a user caused."""

    exit_code = 1


class BadReview(UserError):
    """The body is not a valid AdmissionReview: HTTP 400, not a decision."""


class TooDeep(BadReview):
    """Something in it is nested too deeply to be read."""


class BadYaml(UserError):
    """The text cannot be read; `where` is an index into it, and the message is one line."""

    def __init__(self, where: int, problem: str) -> None:
        self.where = where
        super().__init__(printable(problem))


class BadManifest(UserError):
    """The file is not valid YAML; one line: file:line:column: what is wrong."""


class BadConfig(UserError):
    """A file that an admin wrote is invalid; the message is one line, for that admin."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"))


class BadSetting(UserError):
    """A flag has an invalid value; the message names the flag, the value and what is valid."""

    exit_code = 2


class Unreadable(UserError):
    """A file cannot be read; one line, with its name."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class Unusable(UserError):
    """The file is missing, unreadable or invalid; the message says which."""


class BadPair(Unusable):
    """The files are not a certificate and key that can serve now; the message says what is wrong."""


class Failure(UserError):
    """A command cannot do what was requested; the message is one line for the user."""
