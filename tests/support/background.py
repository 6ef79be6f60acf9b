"""Work in threads of its own, for as long as a `with` lasts."""

import threading
from collections.abc import Callable
from typing import Self


class Background:
    """Runs each piece of work in a thread; it is to end soon after `over` is set, for which the `with` waits."""

    def __init__(self, *work: Callable[[], None]) -> None:
        self.over = threading.Event()
        self._threads = [threading.Thread(target=one) for one in work]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()
