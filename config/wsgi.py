import gc
import os

# Nothing imported is ever freed, so garbage collection would waste a sixth of the startup time.
gc.disable()

from django.core.wsgi import get_wsgi_application  # noqa: E402

from config.embedded.pulses import start_pulse  # noqa: E402
from config.garbage import keep_imported  # noqa: E402
from config.pooling import limit_waits  # noqa: E402

limit_waits()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()
# The first request should not wait until all pages and the API are imported, and the models loaded.
import config.urls  # noqa: E402, F401
from contextopt.assemblies.warmup import load_models  # noqa: E402

load_models()
keep_imported()
start_pulse()
