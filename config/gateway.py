"""The gateway's process: a separate ASGI application, so that it keeps running if the web process fails."""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from config.embedded.pulses import MainLoop, start_pulse  # noqa: E402
from contextopt.gateway.app import Gateway  # noqa: E402
from contextopt.telemetry import get_telemetry  # noqa: E402

# Threads yield to the event loop, which forwards chunks, more often than by default.
sys.setswitchinterval(0.0005)

# A stuck loop is noticed this much later than a stopped process.
loop = MainLoop(stuck_seconds=3.0)
application = Gateway("config.decider", loop.turn)
# Import the libraries now, so that the first prompt does not wait for them.
get_telemetry()
start_pulse(loop.is_well)
