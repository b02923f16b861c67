"""The Inspector of an appended context."""

from django.test import Client

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Author, Conversation, Message, MessageState
from contextopt.spaces.models import Space
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


def test_the_list_shows_the_shared_prefix_and_what_the_endpoint_reported(
    owner_client: Client, space: Space
) -> None:
    assert "Shared prefix" not in owner_client.get("/assemblies/").content.decode()
    make_record(space, title="First", date=NOW)
    ask(space)
    last = Assembly.objects.get(pk=ask(space))
    html = owner_client.get("/assemblies/").content.decode()
    assert 'data-column="Shared prefix"' in html
    assert f"{last.shared_prefix_tokens:,} <span" in html
    assert "reported" not in html
    conversation = Conversation.objects.create(team=space.team, space=space, title="Chat")
    answers = {"conversation": conversation, "text": "?", "state": MessageState.ANSWERED, "assembly": last}
    asked = Message.objects.create(**answers, author=Author.USER, idempotency_key="k-1")
    Message.objects.create(**answers, author=Author.ASSISTANT, reply_to=asked, cached_tokens=1_234)
    assert "1,234 reported" in owner_client.get("/assemblies/").content.decode()
