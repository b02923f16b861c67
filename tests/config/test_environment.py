import json
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from plotly.offline import get_plotlyjs_version

from config import environment

PIN = json.loads(environment.CHARTS.read_text())


def test_the_basic_bundle_is_of_the_version_that_plotly_brings() -> None:
    assert PIN["version"] == get_plotlyjs_version()


def test_pages_get_the_bundle_of_this_version() -> None:
    found = finders.find("plotly/plotly.min.js")
    assert found is not None
    with Path(found).open() as file:
        assert f"v{PIN['version']}" in file.read(200)


def test_npm_packs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "one", "version": "1.0.0"}')
    if not environment.shutil.which("npm"):
        pytest.skip("npm is not installed")
    assert environment._npm_package(str(tmp_path))
    assert environment._npm_package(str(tmp_path / "missing")) is None


def test_a_package_with_another_hash_is_refused() -> None:
    with pytest.raises(SystemExit, match="is not the one that charts"):
        environment._unpack_charts(b"something else", PIN["integrity"])
