"""Every error that a person caused, or can mend: its text is meant for that person, and never has a traceback.

    UserError
    ├── Denied            an object cannot be admitted as it is written   (core/messages.py, which builds its sentences)
    ├── BadReview         a body is no AdmissionReview: HTTP 400, not a decision
    │   └── TooDeep       ... for all that can be read of it
    ├── BadYaml           a text is not YAML that kubectl would read
    ├── BadManifest       the same, with file, line and column
    ├── BadConfig         a site config or a catalogue cannot be used
    ├── BadSetting        a flag has a value that cannot work (exit code 2, as for a flag that does not exist)
    ├── Unreadable        a file cannot be read
    ├── Unusable          a file that is watched is not there, or holds nothing that can be used
    │   └── BadPair       ... a certificate and a key that could not serve now
    └── Failure           a command cannot do what it was asked

What is not here and not an OSError is a defect of ours: HTTP 500, or "a bug" on the command line.
"""

LONGEST_TEXT = 1000
"""Characters of a one-line text. Longer ones quote what somebody else wrote."""


def printable(value: object) -> str:
    """Text that cannot break a line, a log or a terminal."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class UserError(Exception):
    """Above everything that a person caused."""

    exit_code = 1


class BadReview(UserError):
    """The body is not an AdmissionReview that we understand: an HTTP 400, not a decision."""


class TooDeep(BadReview):
    """Something in it is nested more deeply than can be read."""


class BadYaml(UserError):
    """The text cannot be read; `where` is an index into it, and the exception's text is one line."""

    def __init__(self, where: int, problem: str) -> None:
        self.where = where
        super().__init__(printable(problem))


class BadManifest(UserError):
    """The file is not YAML that can be read; one line: file:line:column: what is wrong."""


class BadConfig(UserError):
    """A file that an admin wrote cannot be used; the text is one line, meant for that admin."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"))


class BadSetting(UserError):
    """A flag has a value that cannot work; the message names the flag, the value and what is valid."""

    exit_code = 2


class Unreadable(UserError):
    """A file cannot be read; one line, with its name."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class Unusable(UserError):
    """The file is not there, cannot be read, or holds nothing that can be used; the message says which."""


class BadPair(Unusable):
    """The files are not a certificate and its key that could serve now; the message says what is wrong."""


class Failure(UserError):
    """A command cannot do what it was asked; the text is one line for the user."""
