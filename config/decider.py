"""A process that decides on contexts for the gateway, which starts it (contextopt/gateway/deciders.py)."""

import os
import signal

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

# The processes share what is imported here.
import contextopt.gateway.deciders  # noqa: E402, F401
from config.embedded.pulses import start_pulse, start_pulse_without_thread  # noqa: E402
from config.garbage import keep_imported  # noqa: E402
from contextopt.assemblies.warmup import load_shared  # noqa: E402
from contextopt.children import end_with_parent  # noqa: E402

load_shared()
keep_imported()
# This runs in the fork server. Forking is only safe without other threads.
start_pulse_without_thread()


def begin() -> None:
    """Start the pulse, ignore Ctrl-C, and end with the gateway."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    start_pulse()
