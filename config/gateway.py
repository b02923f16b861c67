"""The gateway's process: an ASGI application of its own, so that it does not fall with the pages."""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from config.embedded.pulses import MainLoop, start_pulse  # noqa: E402
from contextopt.gateway.app import Gateway  # noqa: E402
from contextopt.telemetry.exporter import telemetry  # noqa: E402

# Threads give way to the loop that passes chunks on, more often than by default.
sys.setswitchinterval(0.0005)

# A stuck loop is noticed after as many seconds more as a process that stopped.
loop = MainLoop(stuck_seconds=3.0)
application = Gateway("config.decider", loop.turn)
# The first prompt does not wait for the libraries.
telemetry()
start_pulse(loop.is_well)
