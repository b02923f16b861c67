from importlib import import_module

import pytest
from django.db import connection

from contextopt.assemblies.assemble import decide_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.models import Assembly
from tests import factories


def test_records_that_the_answer_probably_used_are_marked(owner_client, space, settings) -> None:
    factories.make_record(space, title="Ada", notes="I adopted a grey cat named Pixel from the shelter.")
    factories.make_record(space, title="Ben", notes="My brother builds boats in Bergen.")
    chat = factories.make_conversation(space, stage=5)
    answer = factories.make_answer(chat, settings, "A grey cat called Pixel, from the shelter.", "Which pet?")
    html = owner_client.get(f"/assemblies/{answer.assembly_id}/").content.decode()
    assert html.count("probably used</span>") == 1
    marked = html.split("probably used</span>")[0].rsplit("<tr", 1)[1]
    assert "Ada" in marked
    assert "is an estimate" in html
    unanswered = factories.make_assembly(space, query="Which pet?")
    assert "probably used" not in owner_client.get(f"/assemblies/{unanswered.id}/").content.decode()


def test_an_answer_to_an_audited_prompt_used_nothing(owner_client, space) -> None:
    factories.make_record(space, title="Ada", notes="I adopted a grey cat named Pixel from the shelter.")
    request = AssemblyIn(space=space.slug, as_of=factories.NOW, query="Which pet?")
    made = decide_space(team_id=space.team_id, request=request, actor="test").log(is_sent=False)
    answer = "A grey cat called Pixel, from the shelter."
    factories.make_gateway_request(space, assembly_id=made.id, question="Which pet?", answer=answer)
    html = owner_client.get(f"/assemblies/{made.id}/").content.decode()
    assert "Text that would have been sent" in html
    assert "audited, not sent" in html
    assert "probably used" not in html
    assert "Not counted: the prompt was audited" in html


@pytest.mark.django_db(transaction=True)
def test_the_upgrade_marks_what_was_only_audited(space) -> None:
    audited, inserted, asked = (factories.make_assembly(space).id for _ in range(3))
    factories.make_gateway_request(space, assembly_id=audited)
    factories.make_gateway_request(space, assembly_id=inserted, mode="insert", is_inserted=True)
    factories.make_gateway_request(space, assembly_id=inserted)
    with connection.cursor() as cursor:
        cursor.execute(import_module("contextopt.migrations.0052_unsent_contexts").MARK_UNSENT)
    assert dict(Assembly.objects.values_list("id", "is_sent")) == {
        audited: False, inserted: True, asked: True,
    }  # fmt: skip
