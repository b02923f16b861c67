import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()
# What was imported lives as long as the process: the collector need not walk it again and again.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 20, 20)
