"""The client's wheel, which this server builds from its own checkout. No package index has it."""

import hashlib
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_GET
from hatchling.builders.wheel import WheelBuilder

SOURCE = settings.BASE_DIR / "clients" / "python"
_building = Lock()


@dataclass(frozen=True, slots=True)
class Wheel:
    name: str
    content: bytes
    etag: str


@cache
def wheel_name() -> str:
    """Return the wheel's file name, which its address ends with."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"{project['name'].replace('-', '_')}-{project['version']}-py3-none-any.whl"


def read_wheel() -> Wheel:
    """Return the wheel. It is built once per process: the same source always gives the same bytes."""
    with _building:
        return _build()


@cache
def _build() -> Wheel:
    with tempfile.TemporaryDirectory() as folder:
        [path] = WheelBuilder(str(SOURCE)).build(directory=folder, versions=["standard"])
        content = Path(path).read_bytes()
        return Wheel(Path(path).name, content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@require_GET
def connect_wheel(request: HttpRequest, name: str) -> HttpResponse:
    """Send the wheel to anyone: it holds nothing of a team."""
    if name != wheel_name():
        raise Http404(f"This server has {wheel_name()}.")
    wheel = read_wheel()
    headers = {"ETag": wheel.etag, "Content-Disposition": f'attachment; filename="{wheel.name}"'}
    response = HttpResponse(wheel.content, "application/octet-stream", headers=headers)
    return get_conditional_response(request, etag=wheel.etag, response=response) or response
