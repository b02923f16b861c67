"""Processes that another one starts and that must not outlive it."""

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """End this process when its parent is gone, because a killed parent cannot end it."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
