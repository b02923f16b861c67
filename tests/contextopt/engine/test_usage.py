from contextopt.engine.evidence import estimate_use

RECORDS = {
    1: "- Ada (2026-05-08): I adopted a grey cat named Pixel from the shelter on Oslo Street.",
    2: "- Ben (2026-05-08): My brother moved to Bergen to build wooden boats.",
    3: "- Ada (2026-05-08): The cat food is in the cupboard.",
}


def used(answer: str, question: str = "Which pet did Ada adopt?") -> list[int]:
    return [record_id for record_id, use in estimate_use(answer, question, RECORDS).items() if use.is_used]


def test_marks_the_record_that_shares_rare_words_with_the_answer() -> None:
    assert used("A grey cat called Pixel, from the shelter.") == [1]
    found = estimate_use("A grey cat called Pixel, from the shelter.", "Which pet did Ada adopt?", RECORDS)
    assert {"grey", "pixel"} <= set(found[1].words)
    assert found[1].weight > found[3].weight > 0 == found[2].weight


def test_words_of_the_question_do_not_count() -> None:
    assert used("Ada did adopt a pet.") == []
    question = "Did the brother move to Bergen to build wooden boats?"
    assert used("Yes, he builds wooden boats in Bergen.", question) == []


def test_numbers_count() -> None:
    records = {1: "The rent is 4,200 a month.", 2: "The rent is paid.", 3: "The rent is due."}
    use = estimate_use("It is 4,200 kroner a month.", "How high is the rent?", records)
    assert [record_id for record_id, each in use.items() if each.is_used] == [1]
    assert "4,200" in use[1].words


def test_an_answer_without_shared_words_used_nothing() -> None:
    assert used("I don't know.") == []
    assert estimate_use("Pixel", "Which?", {}) == {}


def test_long_records_do_not_win_by_their_length() -> None:
    fact = "We pay 4,200 kroner rent to Solberg."
    records = {1: fact, 2: f"{fact} {' '.join(f'word{number}' for number in range(400))}", 3: "Nothing."}
    use = estimate_use("The rent is 4,200 kroner, to Solberg.", "Whom do we pay?", records)
    assert [record_id for record_id, each in use.items() if each.is_used] == [1]
