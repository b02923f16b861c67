"""The README and the code agree on every setting and every command."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from config.settings import BASE_DIR

README = (BASE_DIR / "README.md").read_text()
PACKAGES = ("config", "contextopt", "memory", "dashboard")
# Read by Make, by libraries or by the operating system, so not settings of the product.
NOT_OURS = {"PATH", "CONTEXTOPT_UP", "DJANGO_SETTINGS_MODULE", "DEBIAN_FRONTEND"}


def sources() -> str:
    return "\n".join(path.read_text() for name in PACKAGES for path in (BASE_DIR / name).rglob("*.py"))


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_setting_is_documented_and_every_documented_one_is_read() -> None:
    read = set(re.findall(r"env_\w+\(\s*\"([A-Z_]+)\"", sources()))
    read |= set(re.findall(r"environ(?:\.get\(|\[)\"([A-Z_]+)\"", sources())) - NOT_OURS
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", section("Configuration"), re.MULTILINE))
    assert read == documented


def test_every_command_is_documented_and_every_documented_one_exists() -> None:
    ours = {name for name, app in get_commands().items() if app in PACKAGES}
    documented = set(re.findall(r"^\| `(\w+)", section("Commands"), re.MULTILINE))
    assert ours == documented


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = (BASE_DIR / "Makefile").read_text()
    targets = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make (\w+)", README, re.MULTILINE)) <= targets


def test_every_linked_file_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not Path(BASE_DIR / link).exists()] == []


@pytest.mark.parametrize("name", ["docs/DESIGN.md", "CONTRIBUTING.md"])
def test_every_path_that_is_named_is_there(name: str) -> None:
    """When a module moves, the documents that name it must change too."""
    named = re.findall(r"`([a-z]\w*/[\w/.]*)`", (BASE_DIR / name).read_text())
    assert len(named) > 5
    tops = {path.split("/")[0] for path in named if (BASE_DIR / path.split("/")[0]).is_dir()}
    ours = [path for path in named if path.split("/")[0] in tops]
    assert [path for path in ours if not (BASE_DIR / path).exists()] == []
