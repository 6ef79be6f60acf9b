"""Calls as they should be, beside which others may do what they like: each of these has to be answered."""

import ssl

from tests.support import mutants
from tests.support.background import Background
from tests.support.client import answer, connect, post, trust
from tests.support.process import CA
from webhook.server.replica import Addresses


class GoodCalls(Background):
    """Reviews as an API server sends them, one after the other, each on a new connection or on a kept one."""

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
        # No timeout: it says how long an API server waits, and this machine may be busy with other things.
        connection.sendall(post(mutants.POD, path="/mutate"))
        status, _, body = answer(connection)
        if status != 200 or b'"patch"' not in body:
            self.failed.append(f"{status} {body!r}")
            return
        self.answered += 1
