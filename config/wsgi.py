import gc
import os

# All that is imported stays: to look for garbage meanwhile takes a sixth of the start.
gc.disable()

from django.core.wsgi import get_wsgi_application  # noqa: E402

from config.embedded.pulses import start_pulse  # noqa: E402

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()
# What was imported lives as long as the process: the collector need not walk it again and again.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 20, 20)
gc.enable()
start_pulse()
