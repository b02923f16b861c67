"""The health check: whether the web process and its database respond, and nothing else."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from psycopg_pool import PoolTimeout


@require_GET
@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """Answer 200 "ok", or 503 when the database cannot be reached."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, PoolTimeout):
        return HttpResponse("database unavailable\n", status=503, content_type="text/plain")
    return HttpResponse("ok\n", content_type="text/plain")
