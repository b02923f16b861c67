"""Runs database work in threads, so that the event loop never waits for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from django.db import close_old_connections


async def in_thread[**P, R](pool: Executor, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run the work in a thread of the pool, and give its connection back afterwards."""

    def run() -> R:
        try:
            return work(*args, **kwargs)
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(pool, run)
