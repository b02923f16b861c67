"""Finds prompts of the gateway by the provider's id of the answer, and the texts that were kept of them."""

from contextopt.gateway.models import GatewayRequest
from contextopt.models import Assembly
from memory.feedback.models import ExternalMessage


def find_request(team_id: int, answer_id: str) -> GatewayRequest | None:
    """Return the newest prompt of the team whose answer has this id and that has a context."""
    rows = GatewayRequest.objects.filter(team_id=team_id, answer_id=answer_id, assembly__isnull=False)
    # The second condition lets the index be used.
    return rows.exclude(answer_id="").newest_first().first()


def find_kept(assembly: Assembly, external: ExternalMessage | None = None) -> GatewayRequest | None:
    """Return the prompt of an assembly whose texts were kept, if any: of that answer, or else the newest."""
    rows = GatewayRequest.objects.filter(assembly=assembly).exclude(question="", answer="")
    if external is not None:
        rows = rows.filter(answer_id=external.external_id)
    return rows.newest_first().first()
