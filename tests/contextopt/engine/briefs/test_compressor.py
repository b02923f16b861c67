"""Compression: critical findings, the brief, and omissions with their reasons."""

from typing import ClassVar

import pytest

from contextopt.engine.briefs.compressor import Compression, compress, natural
from contextopt.engine.briefs.findings import Finding, render_finding
from contextopt.engine.briefs.settings import BriefSettings, PhaseBrief
from contextopt.engine.validation import InvalidValue
from contextopt.engine.values import ContextWarning
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.findings import make_finding, make_findings

SETTINGS = BriefSettings()


def compressed(*findings: Finding, phase: str = "analysis", budget: int | None = None) -> Compression:
    settings = SETTINGS if budget is None else SETTINGS.with_budget(phase, budget)
    return compress(findings, phase=phase, settings=settings, tokenizer=TOKENIZER)


def reasons(compression: Compression) -> dict[str, str]:
    return {each.id: each.reason for each in compression.discarded}


def test_an_open_question_is_told_and_one_without_a_statement_too() -> None:
    asked = make_finding(category="open_questions", content={"description": "Which cache?"}, decision="open")
    told = compressed(asked)
    assert (told.brief, told.discarded) == ("open_questions:\ndecision: open — Which cache?", ())
    bare = make_finding(category="open_questions", content={"description": "Which cache?"})
    assert compressed(bare).brief == "open_questions:\nWhich cache?"
    risk = "The importer reads each column of every table again, which takes all night and blocks the backup."
    long = make_finding(content={"risk": risk})
    assert reasons(compressed(long, budget=20)) == {"F-001": "over_budget"}


class TestTheExample:
    """16 findings of about 7,000 tokens become a brief of at most 450 tokens, and four are critical."""

    def test_sizes(self) -> None:
        findings = make_findings()
        result = compressed(*findings)
        assert len(findings) == 16
        assert 6_800 <= result.tokens_before <= 7_200
        assert result.brief_tokens == TOKENIZER.count(result.brief) <= 450
        assert result.critical == ("F-001", "F-002", "F-003", "F-009")
        assert result.critical_tokens <= 1_350
        assert result.tokens_after == result.brief_tokens + result.critical_tokens
        assert (result.warnings, reasons(result)) == ((), {"F-014": "speculation"})

    def test_the_slots_are_filled(self) -> None:
        lines = compressed(*make_findings()).brief.split("\n")
        assert [line for line in lines if line.endswith(":")] == [
            "constraints:", "existing_patterns:", "dependencies:", "risks:", "open_questions:",
        ]  # fmt: skip
        assert any(
            line.startswith("PaymentGateway (payments/gateway.py:41); reusability: high") for line in lines
        )
        assert (
            "tables: payments, orders, outbox_events; apis: POST /v1/refunds, GET /v1/charges/{id}; "
            "services: ledger-service, notification-service"
        ) in lines
        assert any(line.startswith("Slow migration; severity: medium") for line in lines)

    @pytest.mark.parametrize(("phase", "budget"), [("design", 600), ("implementation", 600), ("other", 450)])
    def test_the_budgets_of_other_phases_hold(self, phase: str, budget: int) -> None:
        findings = [
            make_finding(id=f"F-{place}", phase=phase, category="changes", content={"description": text})
            for place, text in enumerate(_long_texts(80))
        ]
        result = compressed(*findings, phase=phase)
        assert budget * 0.9 <= result.brief_tokens <= budget


class TestCritical:
    @pytest.mark.parametrize(
        ("overrides", "is_critical"),
        [
            ({"tags": ("critical",)}, True),
            ({"tags": ("Critical",)}, True),
            ({"implementation_ready": True}, True),
            ({"category": "constraints", "confidence": 0.91}, True),
            ({"category": "constraints", "confidence": 0.9}, False),
            ({"category": "risks", "confidence": 1.0}, False),
            ({"category": "api_contracts", "confidence": 1.0}, False),
            ({}, False),
        ],
    )
    def test_what_makes_critical(self, overrides: dict[str, object], is_critical: bool) -> None:
        assert bool(compressed(make_finding(**overrides)).critical) is is_critical

    def test_key_categories_are_those_of_the_phase(self) -> None:
        finding = make_finding(phase="design", category="api_contracts", confidence=0.95)
        assert compressed(finding, phase="design").critical == ("F-001",)
        plain = BriefSettings(phases={"design": PhaseBrief()})
        assert compress([finding], phase="design", settings=plain, tokenizer=TOKENIZER).critical == ()

    def test_dependencies_are_critical_too_and_circles_survive(self) -> None:
        findings = [
            make_finding(id="F-1", tags=("critical",), depends_on=("F-2", "F-99")),
            make_finding(id="F-2", depends_on=("F-3",), confidence=0.1),
            make_finding(id="F-3", depends_on=("F-1",)),
            make_finding(id="F-4", depends_on=("F-1",)),
        ]
        assert compressed(*findings).critical == ("F-1", "F-2", "F-3")

    def test_too_many_and_too_long_warn_and_nothing_is_cut(self) -> None:
        findings = [
            make_finding(id=f"F-{number}", tags=("critical",), content={"description": "why " * 1_500})
            for number in range(1, 8)
        ]
        result = compressed(*findings)
        assert result.critical == tuple(f"F-{number}" for number in range(1, 8))
        assert result.critical_tokens == TOKENIZER.count("".join(map(render_finding, findings)))
        many, long, output = result.warnings
        codes = ["many_critical", "critical_over_budget", "findings_over_budget"]
        assert [warning.code for warning in result.warnings] == codes
        assert many.message == "7 findings are critical, more than 5: F-1, F-2, F-3, F-4, F-5, F-6, F-7"
        assert long.message.startswith("critical findings take ")
        assert output.message.endswith("more than the phase's 7,200")


class TestLeftOut:
    def test_speculation_alternatives_and_repetition(self) -> None:
        result = compressed(
            make_finding(id="F-1", content={"description": "Redis may lose keys."}),
            make_finding(id="F-2", content={"description": "Kafka could help."}, confidence=0.39),
            make_finding(id="F-3", content={"description": "redis MAY lose keys"}),
            make_finding(id="F-4", category="alternatives", content={"name": "SQS"}),
            make_finding(id="F-5", category="alternatives", content={"name": "Celery", "chosen": True}),
            make_finding(id="F-6", category="alternatives", content={"name": "Cron"}, decision="open"),
            make_finding(id="F-7", content={"nothing": None}),
        )
        assert reasons(result) == {
            "F-2": "speculation",
            "F-3": "duplicate_of F-1",
            "F-4": "alternative",
            "F-7": "nothing_said",
        }
        assert "Celery" in result.brief
        assert "Cron; decision: open" in result.brief
        assert result.warnings == (
            ContextWarning("findings_left_out", "not handed on: F-4 (alternative), F-7 (nothing said)"),
            ContextWarning("open_decisions", "decisions are open: F-6"),
        )

    def test_a_repeated_critical_finding_is_its_original(self) -> None:
        result = compressed(make_finding(id="F-1"), make_finding(id="F-2", tags=("critical",)))
        assert (result.critical, reasons(result)) == (("F-2",), {"F-1": "duplicate_of F-2"})

    def test_findings_that_do_not_fit_have_a_reason(self) -> None:
        texts = _long_texts(30)
        findings = [
            make_finding(id=f"F-{place}", content={"description": text}) for place, text in enumerate(texts)
        ]
        result = compressed(*findings, budget=60)
        assert set(reasons(result).values()) <= {"over_budget", "names_only"}
        assert len(result.in_brief) + len(result.discarded) == 30


class TestLeaders:
    """The surest finding of each of the phase's categories, and severe ones, enter before all others."""

    PATTERN: ClassVar = {"pattern_name": "Repository", "location": "src/repo.py", "reusability": "high"}
    TABLE: ClassVar = {"table": "users", "columns": ["id", "email"], "description": "Needs a unique index."}
    FINDINGS = (
        make_finding(id="F-1", category="constraints", content={"description": "Must keep API stable."}),
        make_finding(id="F-2", content={"description": "Data loss on deploy", "severity": "High"}),
        make_finding(id="F-3", category="existing_patterns", content=PATTERN),
        make_finding(id="F-4", category="database_needs", content=TABLE),
        make_finding(id="F-5", category="dependencies", content={"tables": ["users"], "apis": ["/api/x"]}),
    )

    @pytest.mark.parametrize("budget", range(20, 101, 5))
    def test_more_room_never_loses_them(self, budget: int) -> None:
        assert {"F-1", "F-2"} <= set(compressed(*self.FINDINGS, budget=budget).in_brief)

    def test_a_surer_one_comes_first_and_a_severe_one_before_it(self) -> None:
        text = {"description": "Must keep old links."}
        sure = make_finding(id="F-6", category="constraints", content=text, confidence=0.9)
        mild = make_finding(id="F-7", content={"risk": "Timeouts", "severity": "low"}, confidence=0.9)
        assert compressed(*self.FINDINGS, sure, mild, budget=20).in_brief == ("F-6", "F-2")


class TestStatements:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("The cache in app/cache.py is not used, as far as I read.", "is not used"),
            ("Tabellen kjøre_plan støtter ikke soner, dessverre.", "støtter ikke soner"),
            ("系统使用 users_table 表，但可能不支持 Redis。", "但可能不支持 Redis"),
            ("لا يدعم الجدول users هذا بعد، وربما orders.", "لا يدعم"),
            ("If DEBUG is set, then app/views.py may leak, in part.", "If DEBUG is set"),
        ],
    )
    def test_hedges_and_negations_stay(self, text: str, said: str) -> None:
        padding = [
            make_finding(id=f"F-{place}", content={"description": long})
            for place, long in enumerate(_long_texts(6), 2)
        ]
        result = compressed(make_finding(content={"description": text}), *padding, budget=200)
        (kept,) = [kept.text for kept in result.kept if kept.finding_id == "F-001"]
        assert said in kept
        assert kept in text

    def test_code_and_endless_words_fit(self) -> None:
        code = "def pay(order_id):\n    return gateway.charge(order_id)\n"
        result = compressed(
            make_finding(id="F-1", content={"code": code}),
            make_finding(id="F-2", content={"description": "a" * 50_000}),
            make_finding(id="F-3", content={"description": "漢字" * 20_000}),
            budget=100,
        )
        assert "gateway.charge" in result.brief
        assert result.brief_tokens <= 100

    def test_a_field_keeps_its_name(self) -> None:
        content = {"risk": "Locking", "severity": "high", "mitigation": "Use SKIP LOCKED"}
        assert compressed(make_finding(content=content)).brief == (
            "risks:\nLocking; severity: high — mitigation: Use SKIP LOCKED"
        )

    def test_a_schema_is_an_outline(self) -> None:
        content = {
            "table": "users",
            "columns": [{"name": "id", "type": "bigint", "unique": True}, {"name": "mail"}],
        }
        brief = compressed(make_finding(category="database_needs", content=content)).brief
        assert brief == "database_needs:\nusers; columns: id bigint unique: true, mail"


class TestRisks:
    """A risk's line always contains its risk, however long it is."""

    PLACE: ClassVar = {"location": "shop/cart.py:12", "severity": "high", "mitigation": "Add a test"}

    def line(self, risk: str, **content: object) -> str:
        finding = make_finding(category="risks", content={"risk": risk, **self.PLACE, **content})
        return compressed(finding).brief.removeprefix("risks:\n")

    def test_a_line_break_becomes_a_space(self) -> None:
        assert self.line("Rounding each line\nloses cents.") == (
            "Rounding each line loses cents (shop/cart.py:12); severity: high — mitigation: Add a test"
        )

    def test_a_long_one_leads_with_its_first_sentences(self) -> None:
        first, second = "Carts of many lines lose cents. ", "The sum is rounded twice, once by line. "
        line = self.line(first + second + "It was seen in the logs of last week by three people. " * 9)
        assert line.startswith(f"{first}{second}".rstrip(". "))

    def test_a_long_sentence_stays_whole(self) -> None:
        risk = "The importer reads " + "every column of each table again and " * 12 + "again."
        assert self.line(risk).startswith(f"{risk[:-1]} (shop/cart.py:12)")

    def test_an_endless_sentence_is_left_out_with_its_finding(self) -> None:
        finding = make_finding(content={"risk": "columns " * 200, **self.PLACE})
        assert compressed(finding).in_brief == ("F-001",)
        result = compressed(finding, budget=100)
        assert (result.in_brief, reasons(result)) == ((), {"F-001": "names_only"})
        assert result.brief == "also: shop/cart.py"
        assert [each.message for each in result.warnings] == ["not handed on: F-001 (names only)"]

    @pytest.mark.parametrize("budget", [60, 200])
    def test_a_long_sentence_is_cut_at_a_clause(self, budget: int) -> None:
        first = "The importer of shop/cart.py reads each row of the table again"
        risk = f"{first}, {', '.join(f'writes part {part} to the log' for part in range(90))}."
        result = compressed(make_finding(content={"description": risk, "severity": "high"}), budget=budget)
        (line,) = [each.text for each in result.kept if each.text.startswith(first)]
        assert line.endswith(" …")
        assert line.removesuffix(" …") in risk
        assert result.discarded == ()

    @pytest.mark.parametrize("ending", ["but not on Fridays", "unless it is paid", "in theory"])
    def test_a_cut_loses_no_limit(self, ending: str) -> None:
        clauses = ", ".join(f"writes part {part} to the log" for part in range(90))
        risk = f"The importer reads each row of the table again, {clauses}, {ending}."
        result = compressed(make_finding(content={"description": risk, "severity": "high"}), budget=60)
        assert (result.in_brief, result.warnings[-1].code) == ((), "findings_left_out")

    @pytest.mark.parametrize(
        "exception",
        [
            "unless the flag legacy_sums is set",
            "save for carts of one line",
            "as long as the table stays under ten rows",
            "excluding those that were paid",
            "med mindre ordren er betalt",
            "unntatt ordrer som er betalt",
            "and this does not hold for refunds",
        ],
    )
    def test_a_sentence_keeps_its_exception(self, exception: str) -> None:
        long = (
            "every cart with more than a few lines in it loses some cents of its sum on each of the days " * 2
        )
        assert exception in self.line(f"As the sum is rounded, {long}{exception}.")

    @pytest.mark.parametrize("exception", ["Unless paid.", "Except on Fridays.", "Unntatt på lørdager."])
    def test_an_exception_stays_with_the_sentence_before_it(self, exception: str) -> None:
        fill = (
            "Each cart of more than a few lines loses some cents of its sum on each of the days of a week. "
        )
        assert f"week. {exception}"[:-1] in self.line(f"{fill[:-1]} {exception} {fill * 3}")

    @pytest.mark.parametrize("key", ["description", "risk", "explanation", "what_may_happen"])
    def test_whatever_the_field_is_called(self, key: str) -> None:
        text = "The cache of prices is never cleared, so that a change of currency shows old sums. " * 3
        content = {key: text, "location": "shop/cart.py:12", "severity": "high"}
        result = compressed(make_finding(category="risks", content=content), budget=60)
        assert "The cache of prices is never cleared" in result.brief

    def test_a_place_does_not_stand_alone(self) -> None:
        content = {
            "location": "shop/cart.py:12",
            "description": "The sum in cart_total is a float. " + "x" * 400,
        }
        result = compressed(make_finding(category="existing", content=content), *_risks(30), budget=120)
        assert "\n(shop/cart.py:12)\n" not in f"{result.brief}\n"

    def test_of_many_none_is_empty(self) -> None:
        result = compressed(*_risks(60))
        lines = [line for line in result.brief.split("\n") if "severity: high" in line]
        assert len(lines) >= 5
        assert not [line for line in lines if line.startswith("(")]


class TestWhole:
    """Findings that fit go whole before anything is summarised."""

    def test_everything_goes_if_it_fits(self) -> None:
        findings = [
            make_finding(
                id=f"F-{place}",
                content={"description": text, "explanation": "Seen in the logs.", "note": f"row {place}"},
            )
            for place, text in enumerate(_long_texts(4), 1)
        ]
        result = compressed(*findings)
        for finding in findings:
            assert all(text.rstrip(".") in result.brief for text in finding.content.values())
        assert result.discarded == result.warnings == ()

    def test_a_long_one_does_not_cost_a_short_one_its_words(self) -> None:
        short = make_finding(id="F-1", content={"description": "Cents are lost.", "details": "On Mondays."})
        starts = [f"Module part_{place} calls handle_{place}() on each start." for place in range(40)]
        long = make_finding(id="F-2", content={"description": " ".join(starts)})
        result = compressed(short, long, budget=120)
        assert "On Mondays" in result.brief
        assert set(result.in_brief) == {"F-1", "F-2"}

    def test_many_leave_each_other_room(self) -> None:
        findings = [
            make_finding(id=f"F-{place}", content={"description": text, "details": text[::-1]})
            for place, text in enumerate(_long_texts(9), 1)
        ]
        assert len(compressed(*findings).in_brief) == 9

    def test_an_empty_brief_is_named(self) -> None:
        result = compressed(make_finding(content={"nothing": None}))
        assert [(each.code, each.message) for each in result.warnings] == [
            ("empty_brief", "the brief is empty, although 1 finding is not critical"),
            ("findings_left_out", "not handed on: F-001 (nothing said)"),
        ]


class TestSettings:
    @pytest.mark.parametrize("budget", [0, 19, -5, 10**9, True])
    def test_a_budget_is_bounded(self, budget: int) -> None:
        with pytest.raises(InvalidValue, match="budget_tokens"):
            SETTINGS.with_budget("analysis", budget)

    def test_thresholds_are_shares(self) -> None:
        with pytest.raises(InvalidValue, match="speculation_below"):
            BriefSettings(speculation_below=float("nan"))

    def test_no_findings_give_an_empty_brief(self) -> None:
        result = compressed()
        assert (result.brief, result.brief_tokens, result.tokens_before, result.discarded) == ("", 0, 0, ())


def test_natural_order() -> None:
    assert sorted(["F-10", "F-9", "x", "F-009", "9"], key=natural) == ["9", "F-009", "F-9", "F-10", "x"]


def _risks(count: int) -> list[Finding]:
    """Return risks that are too long for a field, each with its location."""
    return [
        make_finding(
            id=f"F-{place}",
            category="risks",
            content={"risk": f"{text}\n{text}", "location": f"src/part_{place}.py:3", "severity": "high"},
        )
        for place, text in enumerate(_long_texts(count), 1)
    ]


def _long_texts(count: int) -> list[str]:
    return [
        f"Module {name}_{place} in src/{name}/part_{place}.py calls handle_{place}() for {place} rows, "
        f"which takes about {place + 3} ms."
        for place, name in zip(range(count), ["orders", "billing", "stock", "mail"] * count, strict=False)
    ]
