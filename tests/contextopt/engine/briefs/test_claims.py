"""Claims in a model's brief are checked against the findings."""

import pytest

from contextopt.engine.briefs.claims import Claim, check_claims
from tests.contextopt.engine.findings import make_finding, make_findings


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PaymentGateway (payments/gateway.py:41) can be used again; the Refunds table: severity HIGH.",
        "The table payments has 2400000 rows. Retries: 3 times, 250 ms apart.",
        "F-003: `stripe_charge_id` has no index, and process_webhook() does not lock the row.",
        "The tables are large, e.g. payments.",
    ],
)
def test_what_the_findings_say_is_no_claim(text: str) -> None:
    assert check_claims(text, make_findings()) == ()


@pytest.mark.parametrize(
    ("text", "kind", "claimed"),
    [
        ("See payments/ledger.py.", "path", "payments/ledger.py"),
        ("It calls refund_all() at once.", "identifier", "refund_all()"),
        ("There are 2,500,000 rows.", "number", "2,500,000"),
        ("It takes 17 seconds.", "number", "17"),
        ("The customers table is affected.", "table", "customers"),
        ("Add an index to table accounts.", "table", "accounts"),
        ("This is a severe risk.", "severity", "severe"),
        ("See https://example.org/x.", "address", "https://example.org/x"),
    ],
)
def test_what_they_do_not_say_is(text: str, kind: str, claimed: str) -> None:
    assert check_claims(text, make_findings()) == (Claim(kind, claimed),)  # type: ignore[arg-type]


def test_a_claim_is_given_once() -> None:
    assert len(check_claims("a/b.py and a/b.py again", [make_finding()])) == 1


def test_scripts_without_blanks() -> None:
    finding = make_finding(content={"description": "系统使用users_table表"})
    assert check_claims("users_table", [finding]) == ()
    assert check_claims("user_table", [finding]) == (Claim("identifier", "user_table"),)
