from contextopt.assemblies.assemble import decide_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.log import log_assembly
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
    result = decide_space(team_id=space.team_id, request=request, actor="test")
    made = log_assembly(result, is_sent=False)
    answer = "A grey cat called Pixel, from the shelter."
    factories.make_gateway_request(space, assembly_id=made.id, question="Which pet?", answer=answer)
    html = owner_client.get(f"/assemblies/{made.id}/").content.decode()
    assert "Text that would have been sent" in html
    assert "audited, not sent" in html
    assert "probably used" not in html
    assert "Not counted: the prompt was audited" in html
