"""Words of any script are found, in every form of their characters."""

import pytest

from contextopt.search import registry
from contextopt.search.hybrid import prepare_query, search
from contextopt.search.registry import SearchFilters
from contextopt.search.words import best_by_words, read_lexemes, weigh_terms
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.records import upsert_records
from tests.factories import NOW

TITLES = {
    "chinese": "数据库迁移推迟到下周三",
    "japanese": "新しいサーバーはKubernetesで動く",
    "korean": "회의실 예약이 취소되었다",
    "thai": "ย้ายฐานข้อมูลลูกค้าวันพุธ",
    "arabic": "اِجْتِماع الفَرِيق يوم الأحد",
    "russian": "Отчёт о продажах за квартал",
    "norwegian": "Brønnøysund får ny nettside",
    "spanish": "La reunión de facturación",
    "decomposed": "A\u030alesund kommune",
    "wide": "ＷＥＢ サーバー",
    "ligature": "The \ufb01rewall con\ufb01guration",
    "hyphens": "Faktura\u00adbehandling",
    "zero width": "log\u200bin page",
}


@pytest.fixture
def titled(space: Space) -> Space:
    rows = [RecordIn(external_id=name, title=title, date=NOW) for name, title in TITLES.items()]
    upsert_records(space=space, rows=rows, actor="test")
    return space


def found(space: Space, text: str) -> list[str]:
    """Return the records with words of the text, the best first."""
    table = registry.get("record")
    terms = weigh_terms(table, space.pk, read_lexemes(text))
    scores = best_by_words(table, space.pk, terms, filters=SearchFilters(), limit=20)
    names = dict(Record.objects.filter(pk__in=scores).values_list("pk", "external_id"))
    return [names[pk] for pk in scores]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("迁移", "chinese"),
        ("数", "chinese"),
        ("三", "chinese"),
        ("数据库什么时候迁移?", "chinese"),
        ("kubernetes", "japanese"),
        ("サーバーはどこで動く", "japanese"),
        ("회의실", "korean"),
        ("ฐานข้อมูล", "thai"),
        ("اجتماع", "arabic"),
        ("اِجْتِماع", "arabic"),
        ("отчет", "russian"),
        ("bronnoysund", "norwegian"),
        ("reunion de facturacion", "spanish"),
        ("Ålesund", "decomposed"),
        ("alesund", "decomposed"),
        ("web", "wide"),
        ("ｗｅｂ", "wide"),
        ("firewall", "ligature"),
        ("fakturabehandling", "hyphens"),
        ("login", "zero width"),
    ],
)
def test_a_word_is_found_in_any_script_and_form(titled: Space, text: str, name: str) -> None:
    assert found(titled, text)[0] == name


def test_the_exact_word_weighs_more_than_the_one_without_accents(space: Space) -> None:
    rows = [
        RecordIn(external_id="plain", title="Tag der resume", date=NOW),
        RecordIn(external_id="accents", title="Tag der résumé", date=NOW),
    ]
    upsert_records(space=space, rows=rows, actor="test")
    assert found(space, "résumé") == ["accents", "plain"]


def test_what_is_stored_stays_as_it_was_sent(titled: Space) -> None:
    stored = dict(Record.objects.filter(space=titled).values_list("external_id", "title"))
    assert stored == TITLES


@pytest.mark.parametrize(
    ("unit", "is_word"), [("数", True), ("ก", True), ("数 ", True), ("é", False), ("\ufdfa", True)]
)
def test_long_runs_are_indexed_if_they_can_be_words(space: Space, unit: str, *, is_word: bool) -> None:
    upsert_records(space=space, rows=[RecordIn(title="run", notes=unit * 30_000, date=NOW)], actor="test")
    hits = search(
        registry.get("record"), space.pk, prepare_query(unit * 50), filters=SearchFilters(), limit=1
    )
    assert any(hit.lexical > 0 for hit in hits) == is_word
