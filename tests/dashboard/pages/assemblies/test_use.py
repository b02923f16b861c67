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
