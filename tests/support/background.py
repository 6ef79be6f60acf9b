"""Work in background threads, for the duration of a `with` block."""

import threading
from collections.abc import Callable
from typing import Self


class Background:
    """Runs each function in a thread. It must return soon after `over` is set, which the end of the block waits for."""

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
