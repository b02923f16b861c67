"""The endpoint for the health of the installation."""

from django.http import HttpResponse
from ninja import Router

from contextopt.api.protocol.authentication import ADMIN, ApiRequest
from contextopt.api.protocol.outputs import reply
from dashboard.health import HealthJson, read_health

router = Router(tags=["Health"])


@router.get("/health", auth=ADMIN, response=HealthJson, summary="Read the installation's health")
def read_installation(request: ApiRequest) -> HttpResponse:  # noqa: ARG001 ninja reads its name
    """Returns the state of workers, queues, backlogs and disk for all teams. For a probe without a key, use
    /healthz.
    """
    return reply(read_health())
