"""How clients reach this installation: the gateway's address, and the snippets of the page Connect.

Address, key, space and question are filled in.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from contextopt.people.models import Way

KEY_VARIABLE = "CONTEXTOPT_KEY"
_PLACE = re.compile(r"«(\w+)»")
_TABS = tomllib.loads(Path(__file__).with_name("snippets.toml").read_text(encoding="utf-8"))
LABELS: Mapping[Way, str] = {Way(name): tab["label"] for name, tab in _TABS.items()}


def describe_gateway(request: HttpRequest) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a snippet. `name` is the value that was filled in, or empty."""

    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A snippet. `is_more` ones are folded, as another way than the first ones."""

    number: int
    title: str
    parts: tuple[Part, ...]
    note: str
    is_more: bool


@dataclass(frozen=True, slots=True)
class WayTab:
    way: Way
    label: str
    snippets: tuple[Snippet, ...]

    @property
    def more(self) -> tuple[Snippet, ...]:
        return tuple(snippet for snippet in self.snippets if snippet.is_more)


def fill_tabs(
    *,
    address: str,
    gateway: str,
    space: str,
    question: str,
    wheel: str,
    secret: str = "",
    gateway_secret: str = "",
    code: str = "",
) -> list[WayTab]:
    """Return the tabs of all ways. Without the key's secret, programs read it from the environment.

    `gateway_secret` is that of the key for the gateway's tab alone.
    """
    filled = {
        "address": address,
        "gateway": gateway,
        "space": space,
        "question": question,
        "wheel": wheel,
        "once": code or "…",
    }
    values = {**filled, **_secret_values(secret)}
    gateway_values = {**filled, **_secret_values(gateway_secret or secret)}
    return [
        WayTab(
            Way(name),
            tab["label"],
            tuple(
                Snippet(
                    number,
                    each["title"],
                    tuple(_parts(each["text"].strip(), gateway_values if name == Way.GATEWAY else values)),
                    each.get("note", ""),
                    each.get("more", False),
                )
                for number, each in enumerate(tab["snippets"], 1)
            ),
        )
        for name, tab in _TABS.items()
    ]


def _secret_values(secret: str) -> dict[str, str]:
    """Return a key's secret as each kind of snippet needs it."""
    return {
        "key": secret or f"${KEY_VARIABLE}",
        "secret": secret or "…",
        "token": secret or "ctx_…",
        "argument": f', "{secret}"' if secret else "",
        "code": f'"{secret}"' if secret else f'os.environ["{KEY_VARIABLE}"]',
        "import": "" if secret else "import os\n\n",
    }


def _parts(text: str, values: Mapping[str, str]) -> Iterator[Part]:
    for place, piece in enumerate(_PLACE.split(text)):
        if place % 2:
            yield Part(values[piece], piece)
        elif piece:
            yield Part(piece)
