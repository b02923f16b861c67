"""The ways in which software calls: by hand, through a client or the gateway, or from a coding agent.

A request's user agent tells which, except at the gateway. It is shown on the page Connect and decides
nothing.
"""

from enum import StrEnum


class Way(StrEnum):
    HTTP = "http"
    PYTHON = "python"
    GATEWAY = "gateway"
    MCP = "mcp"
    CLAUDE = "claude"
    CODEX = "codex"
    CURSOR = "cursor"


# The beginning of a user agent, in lower case. Hooks send the name of their tool.
_AGENTS = (
    ("contextopt-client", Way.PYTHON),
    ("contextopt-hook/claude", Way.CLAUDE),
    ("contextopt-hook/codex", Way.CODEX),
    ("contextopt-hook/cursor", Way.CURSOR),
    ("claude-code", Way.CLAUDE),
    ("codex", Way.CODEX),
    ("cursor", Way.CURSOR),
)


def way_of(user_agent: str, default: Way = Way.HTTP) -> Way:
    """Return the way of a request; `default` for a user agent that is not one of ours."""
    name = user_agent.lower()
    return next((way for start, way in _AGENTS if name.startswith(start)), default)
