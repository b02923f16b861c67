"""The strip of the guided start, which asks for itself again until the first request."""

from django.test import Client

URL = "/start/"


def test_the_strip_is_sent_again(owner_client: Client) -> None:
    response = owner_client.get(URL, headers={"HX-Request": "true"})
    assert response.status_code == 200
    assert response.content.decode().lstrip().startswith("<section")


def test_the_strip_is_no_page(owner_client: Client) -> None:
    """Opened by itself, it would have neither styles nor navigation."""
    response = owner_client.get(URL)
    assert (response.status_code, response.headers["Location"]) == (302, "/")
