import pytest
from hypothesis import given

from contextopt.engine.text.textkinds import (
    PART_CHARS,
    PARTS_MAX,
    TextKind,
    chars_in_runs,
    kind_of,
    kind_shares,
)
from tests.contextopt.engine.strategies import texts

PROSE = "The cluster was moved on Friday, and nobody noticed it until Monday morning.\n"
CODE = "    def _row(self, answer: Answer) -> GatewayRequest:\n        return self._rows[answer.id]\n"
DATA = '{"id": 4711, "at": "2026-03-02T10:00:00Z", "ok": true, "v": [1, 2, 3]}\n'
CJK = "昨日のデータベース移行について話し合いました。\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PROSE, TextKind.PROSE),
        (CODE, TextKind.CODE),
        (DATA, TextKind.DATA),
        (CJK, TextKind.CJK),
        ("클러스터를 금요일에 옮겼습니다.", TextKind.CJK),
        ("Møtet er flyttet til fredag, så ikke glem å øve på presentasjonen.", TextKind.PROSE),
        ("Кластер переехал в пятницу, и никто не заметил.", TextKind.PROSE),
        (
            "- [decision] Move to PostgreSQL 18 (2026-03-02) #database: Agreed after the outage",
            TextKind.PROSE,
        ),
        ("2026-11-28,12.5,17.25,99\n2026-11-29,13.5,18.25,98\n", TextKind.DATA),
        ("", TextKind.PROSE),
    ],
)
def test_the_kind_of_a_text(text: str, kind: TextKind) -> None:
    assert kind_of(text) is kind
    assert kind_shares(text) == {kind: 1.0}


def test_the_largest_share_comes_first() -> None:
    shares = kind_shares(CODE * 60 + PROSE * 20)
    assert next(iter(shares)) is TextKind.CODE
    assert set(shares) == {TextKind.CODE, TextKind.PROSE}


@given(texts)
def test_shares_add_up(text: str) -> None:
    assert sum(kind_shares(text).values()) == pytest.approx(1.0)


def test_a_large_text_is_sampled_from_end_to_end() -> None:
    large = PARTS_MAX * PART_CHARS
    shares = kind_shares(PROSE * (large // len(PROSE)) + DATA * (large // len(DATA)))
    assert shares[TextKind.PROSE] == pytest.approx(0.5, abs=0.05)


def test_long_runs_of_a_sign_are_found() -> None:
    assert chars_in_runs(f"a {'-' * 40} b\n{' ' * 20}c {'-' * 16} d {'a' * 30}") == 60
