"""Deciders: what those who wait learn of a process that cannot be started."""

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from contextopt.gateway.deciders import Decider
from tests.concurrency import wait_until


def test_a_process_that_cannot_be_started_is_an_error() -> None:
    def make() -> ProcessPoolExecutor:
        raise RuntimeError("can't start new thread")

    decider = Decider(make)
    with pytest.raises(BrokenProcessPool, match="can't start new thread"):
        decider.submit(int).result(timeout=5)
    wait_until(lambda: decider.waiting == 0)
    decider.close()
