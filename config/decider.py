"""A process that decides on contexts for the gateway, which starts it (contextopt/gateway/deciders.py)."""

import gc
import multiprocessing
import os
import signal
import threading

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from config.embedded.pulses import start_pulse  # noqa: E402
from contextopt.gateway.contexts import load_shared  # noqa: E402

load_shared()
# Looking for cycles among what stays for good would only copy the pages that the deciders share.
gc.collect()
gc.freeze()
# Decisions leave few cycles, and looking for them as often as by default takes 3 % of the time.
gc.set_threshold(20_000, 20, 20)


def begin() -> None:
    """Leave it to the gateway when to end, and show signs of life until then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_gateway, daemon=True).start()
    start_pulse()


def _end_with_gateway() -> None:
    gateway = multiprocessing.parent_process()
    assert gateway is not None
    gateway.join()
    os._exit(0)
