"""The records that earlier blocks of a conversation show."""

from contextopt.engine.assembly import assemble
from contextopt.engine.placement.blocks import NOTHING, Block, Sight, digests, read_block
from contextopt.engine.rendering import summary_line
from contextopt.engine.settings import ContextConfig
from contextopt.engine.values import Assembled, RecordSummary, SpaceContext
from tests.contextopt.engine.factories import NOW, TOKENIZER, make_record, make_space

CONFIG = ContextConfig(window_days=None)


def make_note(id: int, notes: str, version: int = 1) -> RecordSummary:
    line = summary_line(f"Note {id}", "note", NOW, ["a"], notes)
    return make_record(id, line=line, version=version)


def block_of(outcome: Assembled, versions: dict[int, int] | None = None, id: int = 1) -> Block:
    records = [(record_id, (versions or {}).get(record_id, 1)) for record_id in outcome.order]
    return read_block(id, outcome.text, records, TOKENIZER)


def see(space: SpaceContext) -> Sight:
    return Sight.of([block_of(assemble(space, CONFIG, NOW, TOKENIZER))])


def test_a_new_block_holds_only_what_is_not_in_sight() -> None:
    old, new = make_note(1, "Agreed on PostgreSQL."), make_note(2, "Agreed on Celery.")
    sight = see(make_space(old))
    outcome = assemble(make_space(old, new), CONFIG, NOW, TOKENIZER, sight=sight)
    assert outcome.text == new.line
    assert outcome.order == (2,)
    assert [(entry.id, entry.kept, entry.reason) for entry in outcome.ledger] == [
        (2, True, ""),
        (1, True, "in_sight"),
    ]
    assert outcome.stats.records_included == 2


def test_the_certificate_counts_new_carried_and_sum() -> None:
    sight = see(make_space(make_note(1, "Agreed on PostgreSQL.")))
    space = make_space(make_note(1, "Agreed on PostgreSQL."), make_note(2, "Agreed on Celery."))
    outcome = assemble(space, CONFIG, NOW, TOKENIZER, sight=sight)
    certificate = outcome.certificate
    assert certificate.tokens == TOKENIZER.count(outcome.text)
    assert certificate.carried_tokens == sight.tokens > 0
    assert certificate.total_tokens == certificate.tokens + sight.tokens
    assert outcome.stats.tokens_used == certificate.total_tokens
    assert outcome.stats.tokens_available == CONFIG.context_tokens + sight.tokens


def test_with_everything_in_sight_nothing_is_new() -> None:
    space = make_space(make_note(1, "Agreed on PostgreSQL."))
    outcome = assemble(space, CONFIG, NOW, TOKENIZER, sight=see(space))
    assert outcome.text == ""
    assert outcome.certificate.tokens == 0
    assert outcome.stats.records_included == 1


def test_an_edited_record_is_sent_again() -> None:
    sight = see(make_space(make_note(1, "Agreed on PostgreSQL.")))
    edited = make_note(1, "Agreed on PostgreSQL. Cancelled.", version=2)
    outcome = assemble(make_space(edited), CONFIG, NOW, TOKENIZER, sight=sight)
    assert outcome.text == edited.line


def test_other_passages_of_a_long_record_are_sent() -> None:
    sight = see(make_space(make_note(1, "One thing was said. Another too.")))
    other = make_note(1, "Something else was decided. It concerns nobody here.")
    outcome = assemble(make_space(other), CONFIG, NOW, TOKENIZER, sight=sight)
    assert outcome.order == (1,)


def test_a_line_without_its_day_shows_the_same_passages() -> None:
    dated = "- Ada (2026-03-15) #a: Agreed on PostgreSQL.\n"
    assert list(digests("- Ada #a: Agreed on PostgreSQL.\n")) == list(digests(dated))


def test_a_changed_header_is_sent_again() -> None:
    old, new = make_note(1, "Agreed on PostgreSQL."), make_note(2, "Agreed on Celery.")
    outcome = assemble(
        make_space(old, new, name="Renamed"), CONFIG, NOW, TOKENIZER, sight=see(make_space(old))
    )
    assert outcome.text == f"Space: Renamed\n\n{new.line}"


def test_the_log_holds_numbers_for_the_candidates_alone() -> None:
    sight = see(make_space(make_note(1, "Agreed on PostgreSQL."), make_note(2, "Agreed on Celery.")))
    read = Sight.from_json(sight.to_json([1, 7]))
    assert read.tokens == sight.tokens
    assert read.headers == sight.headers
    assert read.records == {1: sight.records[1]}


def test_nothing_in_sight_changes_nothing() -> None:
    space = make_space(make_note(1, "Agreed on PostgreSQL."))
    assert assemble(space, CONFIG, NOW, TOKENIZER, sight=NOTHING) == assemble(space, CONFIG, NOW, TOKENIZER)
