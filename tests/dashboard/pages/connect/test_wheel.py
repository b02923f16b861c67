"""The wheel that the server builds of its own client."""

import io
import zipfile
from email.parser import Parser

from django.test import Client

from dashboard.pages.connect import wheel
from tests.clients.conftest import SOURCE


def address() -> str:
    return f"/connect/{wheel.wheel_name()}"


def test_it_is_the_package_of_this_checkout() -> None:
    response = Client().get(address())
    assert response.status_code == 200
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    hook = archive.read("contextopt_connect/hook.py")
    assert hook == (SOURCE / "src/contextopt_connect/hook.py").read_bytes()
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(archive.read(name).decode())
    assert address().startswith(f"/connect/contextopt_client-{metadata['Version']}-")
    # The command needs no package index.
    assert not [each for each in metadata.get_all("Requires-Dist") if "extra ==" not in each]


def test_each_process_builds_the_same_bytes() -> None:
    first = wheel.read_wheel()
    wheel._build.cache_clear()
    assert wheel.read_wheel() == first


def test_an_unchanged_wheel_is_not_sent_again() -> None:
    response = Client().get(address())
    again = Client().get(address(), headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_another_name_is_not_found() -> None:
    for name in ("contextopt_client-9.9.9-py3-none-any.whl", "..%2fpyproject.toml", "pyproject.toml"):
        assert Client().get(f"/connect/{name}").status_code == 404


def test_it_is_read_alone() -> None:
    assert Client().post(address()).status_code == 405
    head = Client().head(address())
    assert (head.status_code, head.content) == (200, b"")
