import gzip

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from contextopt.api.protocol.transport import PageGZipMiddleware
from contextopt.people.models import User

GZIP = {"Accept-Encoding": "gzip"}


def test_a_page_is_compressed_for_clients_that_accept_it(client: Client, owner: User) -> None:
    client.force_login(owner)
    plain = client.get("/spaces/")
    packed = client.get("/spaces/", headers=GZIP)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert len(packed.content) < len(plain.content) / 2
    assert "<h1>Spaces</h1>" in gzip.decompress(packed.content).decode()
    assert "Content-Encoding" not in plain.headers


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/csv"])
def test_other_responses_stay_as_they_are(kind: str) -> None:
    middleware = PageGZipMiddleware(lambda _: HttpResponse("x" * 10_000, content_type=kind))
    response = middleware(RequestFactory().get("/", headers=GZIP))
    assert response.content == b"x" * 10_000
    assert "Content-Encoding" not in response.headers
