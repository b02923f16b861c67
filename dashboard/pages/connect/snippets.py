"""The snippets of the page Connect, with address, key and space filled in."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from contextopt.people.ways import Way

KEY_VARIABLE = "CONTEXTOPT_KEY"
_PLACE = re.compile(r"«(\w+)»")
_EXPORT = (
    "Only the tools, without hooks",
    'export CONTEXTOPT_KEY="«secret»"',
    "For the shell that starts the tool.",
)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a snippet. `name` is the value that was filled in, or empty."""

    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Snippet:
    title: str
    parts: tuple[Part, ...]
    note: str


@dataclass(frozen=True, slots=True)
class WayTab:
    way: Way
    label: str
    snippets: tuple[Snippet, ...]


# Way → label, and for each snippet its title, text and note.
_TABS = (
    (
        Way.HTTP,
        "curl",
        (
            (
                "One call",
                "curl «address»/api/v1/assemblies \\\n"
                '  -H "Authorization: Bearer «key»" -H "Content-Type: application/json" \\\n'
                '  -d \'{"space": "«space»", "query": "«question»"}\'',
                "The text in the response goes into your prompt.",
            ),
        ),
    ),
    (
        Way.PYTHON,
        "Python",
        (
            (
                "Install the client",
                "pip install ./clients/python",
                "In a checkout of Contextopt. It needs Python 3.11 or newer.",
            ),
            (
                "Request a context",
                "from contextopt_client import Contextopt\n\n"
                'with Contextopt("«address»"«argument») as contextopt:\n'
                '    context = contextopt.assemble("«space»", query="«question»")\n'
                'print(context["text"])',
                "Typed, sync and async, with adapters for LangChain, the OpenAI Agents SDK and pydantic-ai.",
            ),
        ),
    ),
    (
        Way.MCP,
        "MCP",
        (
            (
                "Any MCP client",
                '{"mcpServers": {"contextopt": {\n'
                '  "type": "http",\n'
                '  "url": "«address»/mcp",\n'
                '  "headers": {"Authorization": "Bearer «key»"}}}}',
                "The light turns on when the client lists the tools.",
            ),
        ),
    ),
    (
        Way.CLAUDE,
        "Claude Code",
        (
            (
                "With hooks: a context for each prompt",
                ".venv/bin/python manage.py connect claude --repository ~/my-repository",
                "In the checkout of Contextopt. It shows every change and asks first, and makes a key of its "
                "own. --undo removes the changes.",
            ),
            _EXPORT,
            (
                ".mcp.json in the repository",
                '{"mcpServers": {"contextopt": {\n'
                '  "type": "http",\n'
                '  "url": "«address»/mcp",\n'
                '  "headers": {"Authorization": "Bearer ${CONTEXTOPT_KEY}"}}}}',
                "",
            ),
        ),
    ),
    (
        Way.CODEX,
        "Codex",
        (
            (
                "With hooks: a context for each prompt",
                ".venv/bin/python manage.py connect codex --repository ~/my-repository",
                "In the checkout of Contextopt. It shows every change and asks first. --undo removes the changes.",
            ),
            _EXPORT,
            (
                "~/.codex/config.toml",
                '[mcp_servers.contextopt]\nurl = "«address»/mcp"\nbearer_token_env_var = "CONTEXTOPT_KEY"',
                "",
            ),
        ),
    ),
    (
        Way.CURSOR,
        "Cursor",
        (
            (
                "With hooks: a context for each session",
                ".venv/bin/python manage.py connect cursor --repository ~/my-repository",
                "In the checkout of Contextopt. It shows every change and asks first. --undo removes the changes.",
            ),
            _EXPORT,
            (
                ".cursor/mcp.json in the repository",
                '{"mcpServers": {"contextopt": {\n'
                '  "url": "«address»/mcp",\n'
                '  "headers": {"Authorization": "Bearer ${env:CONTEXTOPT_KEY}"}}}}',
                "",
            ),
        ),
    ),
)

LABELS: Mapping[Way, str] = {way: label for way, label, _ in _TABS}


def fill_tabs(*, address: str, space: str, question: str, secret: str = "") -> list[WayTab]:
    """Return the tabs of all ways. Without the key's secret, snippets read it from the environment."""
    values = {
        "address": address,
        "space": space,
        "question": question,
        "key": secret or f"${KEY_VARIABLE}",
        "secret": secret or "…",
        "argument": f', "{secret}"' if secret else "",
    }
    return [
        WayTab(way, label, tuple(_fill(*snippet, values) for snippet in snippets))
        for way, label, snippets in _TABS
    ]


def _fill(title: str, text: str, note: str, values: Mapping[str, str]) -> Snippet:
    return Snippet(title, tuple(_parts(text, values)), note)


def _parts(text: str, values: Mapping[str, str]) -> Iterator[Part]:
    for place, piece in enumerate(_PLACE.split(text)):
        if place % 2:
            yield Part(values[piece], piece)
        elif piece:
            yield Part(piece)
