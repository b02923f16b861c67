"""The Inspector of an appended context."""

from django.test import Client

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.models import Space
from tests.factories import NOW, make_record


def ask(space: Space, **request: object) -> int:
    asked = {"space": space.slug, "as_of": NOW, "placement": "append", "conversation": "c-1"}
    data = AssemblyIn.model_validate(asked | {"system_tokens": 1_500} | request)
    result = assemble_space(team_id=space.team_id, request=data, actor="test")
    assert result.id is not None
    return result.id


def test_the_inspector_shows_new_carried_and_shared_tokens(owner_client: Client, space: Space) -> None:
    make_record(space, title="First", date=NOW)
    first = ask(space)
    make_record(space, title="Second", date=NOW)
    second = ask(space, in_sight=[first])
    html = owner_client.get(f"/assemblies/{second}/").content.decode()
    assert "<dt>Tokens, new</dt>" in html
    assert f'href="/assemblies/{first}/">{first}</a>' in html
    assert "<dt>Placement</dt><dd>Appended</dd>" in html
    assert "<dt>Shared with the last prompt</dt>" in html
