"""How clients reach the gateway."""

from typing import Any

from django.conf import settings

from dashboard.kit.permissions import TeamRequest


def describe_gateway(request: TeamRequest) -> dict[str, Any]:
    """Return the gateway's address and which prompts can pass. Without an upstream, none can."""
    host = settings.GATEWAY_HOST
    if host in {"0.0.0.0", "::"}:  # noqa: S104 all addresses, so the page's own is one
        host = request.get_host().rpartition(":")[0] or request.get_host()
    elif ":" in host:
        host = f"[{host}]"
    port = settings.GATEWAY_PORT
    return {
        "gateway": f"http://{host}:{port}" if port else "",
        "has_openai": bool(port and settings.LLM_BASE_URL),
        "has_anthropic": bool(port and settings.ANTHROPIC_BASE_URL),
    }
