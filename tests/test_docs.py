"""The documentation and the code agree: settings, commands, endpoints, links and paths."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from config.settings import BASE_DIR
from config.urls import api
from docs import reference

DOCS = BASE_DIR / "docs"
README = BASE_DIR / "README.md"
PAGES = [README, BASE_DIR / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
PACKAGES = ("config", "contextopt", "memory", "dashboard")
# Variables of Make, libraries or the operating system, which are no settings of the product.
NOT_OURS = {"PATH", "CONTEXTOPT_UP", "DJANGO_SETTINGS_MODULE", "DEBIAN_FRONTEND"}


def sources() -> str:
    return "\n".join(path.read_text() for name in PACKAGES for path in (BASE_DIR / name).rglob("*.py"))


def settings_read() -> set[str]:
    text = sources()
    read = set(re.findall(r"env_\w+\(\s*\"([A-Z_]+)\"", text))
    return read | set(re.findall(r"environ(?:\.get\(|\[)\"([A-Z_]+)\"", text)) - NOT_OURS


def settings_documented() -> set[str]:
    return set(re.findall(r"^\| `([A-Z_]+)` \|", (DOCS / "configuration.md").read_text(), re.MULTILINE))


def routes() -> list[str]:
    paths = api.get_openapi_schema(path_prefix="/api/")["paths"]
    return [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]


def page_id(path: Path) -> str:
    return str(path.relative_to(BASE_DIR))


@pytest.mark.parametrize("name", sorted(settings_read() | settings_documented()))
def test_setting(name: str) -> None:
    assert name in settings_documented(), f"docs/configuration.md lacks {name}"
    assert name in settings_read(), f"nothing reads {name}"


@pytest.mark.parametrize("name", sorted(reference.our_commands()))
def test_command(name: str) -> None:
    assert f"\n### {name}\n" in (DOCS / "commands.md").read_text(), "run make docs"


@pytest.mark.parametrize("route", routes())
def test_endpoint(route: str) -> None:
    assert f"| `{route}` |" in (DOCS / "api.md").read_text(), "run make docs"


@pytest.mark.parametrize("path", reference.pages(), ids=page_id)
def test_tables_are_up_to_date(path: Path) -> None:
    assert path.read_text() == reference.pages()[path], "run make docs"


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 7_000


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_that_are_shown_exist(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"manage\.py ([a-z_]+)", text)) <= get_commands().keys()
    targets = set(re.findall(r"^(\w+):", (BASE_DIR / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make (\w+)", text, re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([\w-]+))?\)", page.read_text())
    for file, anchor in links:
        target = page.parent / file if file else page
        assert target.exists(), file
        if anchor:
            assert anchor in {
                re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
                for title in re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            }


@pytest.mark.parametrize("name", ["docs/DESIGN.md", "CONTRIBUTING.md"])
def test_every_path_that_is_named_exists(name: str) -> None:
    named = re.findall(r"`([a-z]\w*/[\w/.]*)`", (BASE_DIR / name).read_text())
    assert len(named) > 5
    tops = {path.split("/")[0] for path in named if (BASE_DIR / path.split("/")[0]).is_dir()}
    ours = [path for path in named if path.split("/")[0] in tops]
    assert [path for path in ours if not (BASE_DIR / path).exists()] == []
