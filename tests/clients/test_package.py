import runpy
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.conftest import SOURCE


def test_the_generated_files_are_current() -> None:
    render = runpy.run_path(str(SOURCE / "generate.py"))["render"]
    for path, text in render().items():
        assert path.read_text() == text, f"{path.name} is stale: run clients/python/generate.py"


def test_the_wheel_is_typed_and_small(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "contextopt_client/py.typed" in names
    assert wheel.stat().st_size < 65_000
    assert not [name for name in names if not name.startswith(("contextopt_client", "contextopt_connect"))]


def test_the_version_is_the_same_everywhere(load: Callable[[str], Any]) -> None:
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    assert project["version"] == load(".client").VERSION


def test_the_readme_names_every_method(load: Callable[[str], Any]) -> None:
    readme = (SOURCE / "README.md").read_text()
    own = {name for name in vars(load(".operations").Operations) if not name.startswith("_")}
    assert not [name for name in own if f"`{name}`" not in readme]
