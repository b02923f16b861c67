"""Sends a tool's prompts through the gateway: base URL and headers in the tool's own configuration.

These are files of the person, not of a repository, because they hold the key. Each becomes readable by its
owner alone. Sources: Claude Code, "Settings" and "LLM gateway configuration"; Codex, "Configuration
reference"; opencode, "Config" and "Providers"; aider, "YAML config file" and "Advanced model settings".
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from contextopt_connect.codingagents import BEGIN, END, toml_text
from contextopt_connect.errors import ServerRefused
from contextopt_connect.realfiles import own_folder
from contextopt_connect.server import Gateway, send
from contextopt_connect.toolfiles import Change, Entry, plan_json, plan_toml, plan_yaml

Protocol = Literal["openai", "anthropic"]
REFUSAL, SERVER_FAULT = 400, 500
KEY_HEADER, SPACE_HEADER = "X-Contextopt-Key", "X-Contextopt-Space"
# Only answers that were passed on have it.
STATUS_HEADER = "x-contextopt-status"
PROMPT = "Reply with OK."


@dataclass(frozen=True, slots=True)
class GatewayPlace:
    """The settings of a tool: the gateway's address, the protocols it serves, the headers, the key's file."""

    gateway: str
    protocols: tuple[Protocol, ...]
    secret: str
    space: str
    key_file: Path

    @property
    def headers(self) -> dict[str, str]:
        return {KEY_HEADER: self.secret, SPACE_HEADER: self.space}


def plan_claude(place: GatewayPlace) -> list[Change]:
    home = own_folder(os.environ.get("CLAUDE_CONFIG_DIR"), ".claude")
    headers = "\n".join(f"{name}: {value}" for name, value in place.headers.items())
    entries = [
        Entry(("env", "ANTHROPIC_BASE_URL"), place.gateway),
        Entry(("env", "ANTHROPIC_CUSTOM_HEADERS"), headers),
    ]
    return [plan_json(home, "settings.json", entries, is_private=True)]


def plan_codex(place: GatewayPlace) -> list[Change]:
    home = own_folder(os.environ.get("CODEX_HOME"), ".codex")
    provider = {
        "name": "OpenAI through Contextopt",
        "base_url": f"{place.gateway}/v1",
        "wire_api": "responses",
        "requires_openai_auth": True,
        "http_headers": place.headers,
    }
    # Names of the top level must stand before the first table.
    block = (
        f"{BEGIN} (contextopt connect codex --gateway --undo removes this part)\n"
        f'model_provider = "contextopt"\nmodel_providers.contextopt = {_inline(provider)}\n{END}\n'
    )
    added = {"model_provider": "contextopt", "model_providers": {"contextopt": provider}}
    return [plan_toml(home, "config.toml", block, added, is_first=True, is_private=True)]


def plan_opencode(place: GatewayPlace) -> list[Change]:
    """The key stays in its own file, which opencode reads."""
    home = own_folder(os.environ.get("XDG_CONFIG_HOME"), ".config")
    name = next(
        (name for name in ("opencode.jsonc", "opencode.json") if (home / "opencode" / name).exists()),
        "opencode.json",
    )
    headers = {**place.headers, KEY_HEADER: f"{{file:{place.key_file}}}"}
    entries = [
        Entry(("provider", provider, "options", option), value)
        for provider in place.protocols
        for option, value in (("baseURL", f"{place.gateway}/v1"), ("headers", headers))
    ]
    base = {"$schema": "https://opencode.ai/config.json"}
    return [plan_json(home, f"opencode/{name}", entries, base)]


def plan_aider(place: GatewayPlace) -> list[Change]:
    """Aider's own options know no headers, but the settings of all its models do."""
    home = Path.home().resolve()
    note = f"{BEGIN} (contextopt connect aider --gateway --undo removes this part)\n"
    options = f"{note}openai-api-base: {json.dumps(f'{place.gateway}/v1')}\n{END}\n"
    models = (
        f"{note}- name: aider/extra_params\n  extra_params:\n    extra_headers:\n"
        + "".join(f"      {name}: {json.dumps(value)}\n" for name, value in place.headers.items())
        + f"{END}\n"
    )
    return [
        plan_yaml(home, ".aider.conf.yml", options, taken=r"openai-api-base\s*:"),
        plan_yaml(home, ".aider.model.settings.yml", models, taken=r"-\s+name:\s*[\"']?aider/extra_params"),
    ]


@dataclass(frozen=True, slots=True)
class Route:
    """How a tool reaches its models: the protocols that it speaks, and the plan of its files."""

    label: str
    protocols: tuple[Protocol, ...]
    plan: Callable[[GatewayPlace], list[Change]]

    def served(self, found: Gateway) -> tuple[Protocol, ...]:
        """Return the tool's protocols for which the gateway has a provider.

        Raises:
            ServerRefused: there is none.
        """
        served = tuple(each for each in self.protocols if found["url"] and found[each])
        if not served:
            raise ServerRefused(
                f"The gateway is off, or has no provider for {self.label}. The page Connect says what to set."
            )
        return served


ROUTES: Mapping[str, Route] = {
    "claude": Route("Claude Code", ("anthropic",), plan_claude),
    "codex": Route("Codex", ("openai",), plan_codex),
    "opencode": Route("opencode", ("anthropic", "openai"), plan_opencode),
    "aider": Route("aider", ("openai",), plan_aider),
}


def check_prompt(place: GatewayPlace) -> str:
    """Send a prompt through the gateway, and return what came of it.

    The provider's key is taken from the environment, as the tool itself does. Without one the provider
    refuses, which shows all the same that prompts pass.

    Raises:
        ServerRefused: the gateway cannot be reached, or did not pass the prompt on.
    """
    path, body, key = _prompt(place.protocols[0])
    answer = send(place.gateway, "POST", path, {**place.headers, **key}, body)
    status = answer.headers.get(STATUS_HEADER)
    if status is None or answer.status >= SERVER_FAULT:
        error = answer.body.get("error") if isinstance(answer.body, dict) else None
        reason = error.get("message") if isinstance(error, dict) else None
        raise ServerRefused(
            f"{place.gateway} did not pass a prompt: {reason or answer.status}", answer.status
        )
    if answer.status < REFUSAL:
        return f"A prompt passed the gateway, and the provider answered it ({status})."
    return f"A prompt passed the gateway. The provider answered {answer.status}: the check has no key for it."


def _prompt(protocol: Protocol) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return path, body and headers of a short prompt, with the provider's key if the environment has it."""
    messages = [{"role": "user", "content": PROMPT}]
    if protocol == "anthropic":
        secret = os.environ.get("ANTHROPIC_API_KEY", "")
        headers = {"anthropic-version": "2023-06-01", **({"x-api-key": secret} if secret else {})}
        return "/v1/messages", {"model": "claude-haiku-4-5", "max_tokens": 1, "messages": messages}, headers
    secret = os.environ.get("OPENAI_API_KEY", "")
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return "/v1/chat/completions", {"model": "gpt-5-nano", "messages": messages}, headers


def _inline(value: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        members = ", ".join(f"{_inline(name)} = {_inline(each)}" for name, each in value.items())
        return f"{{ {members} }}"
    return str(value).lower() if isinstance(value, bool) else toml_text(value)
