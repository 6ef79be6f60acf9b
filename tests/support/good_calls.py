"""Well-behaved calls, each of which must be answered, whatever other clients do at the same time."""

import ssl

from tests.support import mutants
from tests.support.background import Background
from tests.support.client import answer, connect, post, trust
from tests.support.process import CA
from webhook.server.replica import Addresses


class GoodCalls(Background):
    """Reviews as an API server sends them, one after another: on new connections, and on a persistent one."""

    def __init__(self, at: Addresses) -> None:
        self.answered = 0
        self.failed: list[str] = []
        self._at = at
        super().__init__(self._fresh, self._kept)

    def _fresh(self) -> None:
        context = trust(CA.certificate)
        while not self.over.wait(0.02):
            try:
                with connect(self._at, context) as connection:
                    self._call(connection)
            except OSError as error:
                self.failed.append(repr(error))

    def _kept(self) -> None:
        with connect(self._at, trust(CA.certificate)) as connection:
            while not self.over.wait(0.01):
                try:
                    self._call(connection)
                except OSError as error:
                    self.failed.append(repr(error))
                    return

    def _call(self, connection: ssl.SSLSocket) -> None:
        # Without `?timeout=`, which is how long an API server waits: this machine may be busy.
        connection.sendall(post(mutants.POD, path="/mutate"))
        status, _, body = answer(connection)
        if status != 200 or b'"patch"' not in body:
            self.failed.append(f"{status} {body!r}")
            return
        self.answered += 1
