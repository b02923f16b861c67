"""Claims in a model's brief are checked against the findings."""

import pytest

from contextopt.engine.briefs.claims import Claim, check_claims
from tests.contextopt.engine.findings import make_finding, make_findings

SQL = ["SELECT", "DELETE", "INSERT", "INTO", "FROM", "JOIN"]


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
def test_names_in_the_findings_are_no_claims(text: str) -> None:
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
def test_names_missing_in_the_findings_are_claims(text: str, kind: str, claimed: str) -> None:
    assert check_claims(text, make_findings()) == (Claim(kind, claimed),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "`payments` needs an index", "Tables users, payments", "Tables: `users`, `payments`; add an index",
        "tables (users, payments)", "join payments with users", "users is joined to payments: JOIN payments",
        "the payments and users tables", "SELECT * FROM users, payments", "DELETE FROM payments",
        "INSERT INTO payments", "joining users and payments", "Add table payments.",
        "Tabellene users og payments", "users- og payments-tabellene", "the users and payments tables",
        "It reads the users, payments, and users tables.", "`payments` table",
    ],
)  # fmt: skip
def test_every_table_of_a_list_is_a_claim(text: str) -> None:
    finding = make_finding(content={"table": "users", "statements": SQL})
    assert [claim.text for claim in check_claims(text, [finding])] == ["payments"]


@pytest.mark.parametrize(
    "text",
    [
        "The table below", "See the table above.", "Join us, or join them with users.",
        "A table scan of users", "The users table stores names, and the users table lacks an index.",
        "Update table users, then wait.", "Read from users and write into users.",
        "The tables are locked and the rest waits.", "All tables, even small ones",
        "Both tables need an index.", "`users` is slow.", "FROM the users table", "Tabellen under",
        "Alle tabeller er låst.", "The same tables and columns", "users and the other tables",
    ],
)  # fmt: skip
def test_ordinary_words_are_no_claims(text: str) -> None:
    finding = make_finding(content={"table": "users", "statements": SQL})
    assert check_claims(text, [finding]) == ()


def test_a_claim_is_given_once() -> None:
    assert len(check_claims("a/b.py and a/b.py again", [make_finding()])) == 1


def test_scripts_without_blanks() -> None:
    finding = make_finding(content={"description": "系统使用users_table表"})
    assert check_claims("users_table", [finding]) == ()
    assert check_claims("user_table", [finding]) == (Claim("identifier", "user_table"),)
