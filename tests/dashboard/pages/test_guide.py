"""The strip of the guided start, which asks for itself again until the first request."""

import pytest
from django.test import Client

from contextopt.people.models import Team
from tests import factories

URL = "/start/"


def test_the_strip_is_sent_again(owner_client: Client) -> None:
    response = owner_client.get(URL, headers={"HX-Request": "true"})
    assert response.status_code == 200
    assert response.content.decode().lstrip().startswith("<section")


def test_the_strip_is_no_page(owner_client: Client) -> None:
    """Opened by itself, it would have neither styles nor navigation."""
    response = owner_client.get(URL)
    assert (response.status_code, response.headers["Location"]) == (302, "/")


@pytest.mark.parametrize(("page", "has_link"), [("/connect/?way=mcp", False), ("/settings/", True)])
def test_the_strip_has_no_link_to_its_own_page(
    page: str, has_link: bool, owner_client: Client, team: Team
) -> None:
    space = factories.make_space(team)
    factories.make_record(space)
    factories.make_assembly(space)
    factories.make_key(team)
    sent = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{page}"}
    for address in (page, URL):
        html = owner_client.get(address, headers=sent if address == URL else {}).content.decode()
        strip = html[html.index('id="start"') :]
        assert ('class="button primary" href="/connect/"' in strip) == has_link
