"""Writes the tables of commands and endpoints into docs/: `python -m docs.reference`, or `make docs`.

The tables come from the commands' own options and from the OpenAPI description, so there is one text to keep.
A test compares the pages with what this module renders.
"""

from argparse import Action
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import django
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from contextopt.engine.settings import SETTINGS
from contextopt.engine.validation import ALL, Setting

HERE = Path(__file__).parent
APPS = ("contextopt", "memory", "dashboard")
GROUPS = {
    "Serve": ("up",),
    "Import": ("import_records", "import_git", "import_markdown", "import_questions", "import_dialogues"),
    "Contexts": (
        "assemble", "simulate_placement", "search", "replay", "explain", "evaluate", "backtest",
        "verify_savings",
    ),
    "Agents": (
        "agent_context", "filter_phase", "retry_delta", "add_finding", "change_finding", "resolve_finding",
        "compress_phase", "advance_phase", "task_status", "compress_findings", "index_repo", "relevant_files",
    ),
    "Memory": ("complete_task", "strategy_hint", "detect_task_pattern"),
    "Connect": ("connect", "mcp"),
    "Administration": ("create_api_key", "embed", "rebuild_rollups", "demo"),
}  # fmt: skip


def our_commands() -> set[str]:
    return {name for name, app in get_commands().items() if app in APPS}


def render_commands() -> str:
    """Return a section for each command, in groups."""
    lines: list[str] = []
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _command_lines(name)
    return "\n".join(lines)


def _command_lines(name: str) -> Iterator[str]:
    command = load_command_class(get_commands()[name], name)
    parser = command.create_parser("manage.py", name)
    own = [action for action in parser._actions if _is_own(action)]
    usage = " ".join(_usage(action) for action in own if not action.option_strings)
    options = [action for action in own if action.option_strings]
    yield from (f"### {name}", "", f"`manage.py {name}{f' {usage}' if usage else ''}`", "", command.help, "")
    if described := [action for action in own if action.help]:
        yield from ("| argument | meaning |", "|---|---|")
        yield from (f"| `{_cell(_spelling(action))}` | {_cell(action.help)} |" for action in described)
        yield ""
    missing = [action.dest for action in options if not action.help]
    if missing:
        raise ValueError(f"{name} has options without a help text: {', '.join(missing)}")


def _is_own(action: Action) -> bool:
    """Leave out the options of every Django command, and those that the page's introduction describes."""
    shared = {"--json", "--team", "--skip-checks"} | {
        option for each in BaseCommand().create_parser("", "")._actions for option in each.option_strings
    }
    return not shared & set(action.option_strings)


def _usage(action: Action) -> str:
    name = _name(action)
    return {"+": f"{name}…", "*": f"[{name}…]", "?": f"[{name}]"}.get(str(action.nargs), name)


def _name(action: Action) -> str:
    if action.metavar:
        return str(action.metavar)
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _spelling(action: Action) -> str:
    if not action.option_strings:
        return _usage(action)
    value = "" if action.nargs == 0 else f" {_name(action)}"
    return f"{action.option_strings[0]}{value}"


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|")


def render_endpoints() -> str:
    """Return a table of endpoints for each tag of the API: scope, method, path, summary."""
    from config.urls import api

    scopes = dict(_scopes(api))
    tables: dict[str, list[str]] = {}
    for path, methods in api.get_openapi_schema(path_prefix="/api/")["paths"].items():
        for method, operation in methods.items():
            row = (
                f"| `{method.upper()} {path}` | {scopes[operation['operationId']]} | {operation['summary']} |"
            )
            tables.setdefault(operation["tags"][0], []).append(row)
    lines: list[str] = []
    for tag in sorted(tables):
        lines += [f"### {tag}", "", "| endpoint | scope | does |", "|---|---|---|", *tables[tag], ""]
    return "\n".join(lines)


def _scopes(api: Any) -> Iterator[tuple[str, str]]:
    for bound in api._get_bound_routers():
        for view in bound.path_operations.values():
            for operation in view.operations:
                name = operation.operation_id or api.get_openapi_operation_id(operation)
                yield name, operation.auth_callbacks[0].needed.value


def render_settings() -> str:
    """Return a table of the settings of a space, the basic ones first."""
    lines: list[str] = []
    for title, is_basic in (("Basic", True), ("Advanced", False)):
        lines += [
            f"### {title}",
            "",
            "| setting | label | values | default | stages | in a request | meaning |",
        ]
        lines += ["|---|---|---|---|---|---|---|"]
        lines += [_setting_row(each) for each in SETTINGS.values() if each.is_basic == is_basic] + [""]
    return "\n".join(lines)


def _setting_row(setting: Setting) -> str:
    default = setting.default
    if isinstance(default, Decimal):
        default = f"{default.normalize():f}"
    stages = ", ".join(map(str, setting.stages)) or "all"
    requested = f"`{setting.request_name}`" if setting.request_name else "–"
    cells = (
        f"`{setting.name}`", setting.label, _values_of(setting),
        f"`{_blank_of(setting) if default is None else default}`", stages, requested, setting.about,
    )  # fmt: skip
    return f"| {' | '.join(map(_cell, cells))} |"


def _values_of(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{_blank_of(setting) if each is None else each}`" for each in setting.choices)
    if setting.kind is str:
        return f"up to {setting.high} characters"
    bounds = f"{setting.low:,} to {setting.high:,}"
    return f"{bounds}, or `{_blank_of(setting)}`" if setting.is_optional else bounds


def _blank_of(setting: Setting) -> str:
    return "null" if setting.is_null else ALL


def render_formats() -> str:
    """Return a table of the formats that can be imported."""
    from contextopt.spaces.importing.formats import FORMATS

    rows = [f"| `{each.name}` | {_cell(each.label)} | {_cell(each.about)} |" for each in FORMATS.values()]
    return "\n".join(["| `--format` | on pages | what it is |", "|---|---|---|", *rows, ""])


def fill(page: str, name: str, text: str) -> str:
    """Return the page with the part between the markers of `name` replaced."""
    begin, end = f"<!-- {name}: written by make docs -->\n", f"<!-- end of {name} -->\n"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def pages() -> dict[Path, str]:
    """Return the text that each page with a table should have."""
    commands, endpoints, contexts = HERE / "commands.md", HERE / "api.md", HERE / "contexts.md"
    return {
        commands: fill(commands.read_text(), "commands", render_commands()),
        endpoints: fill(endpoints.read_text(), "endpoints", render_endpoints()),
        contexts: fill(
            fill(contexts.read_text(), "settings", render_settings()), "formats", render_formats()
        ),
    }


if __name__ == "__main__":
    django.setup()
    for path, text in pages().items():
        path.write_text(text)
