"""The names in a question, and the words that a name could be if it is misspelled."""

import pytest

from contextopt.engine.queryanalysis import names_in, spellings


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("How do we deploy to Kubernetes?", [("kubernetes",)]),
        ("Kubernetes is slow. Why?", []),
        ("Did Anna-Lisa meet Bo in Oslo?", [("anna", "lisa"), ("oslo",)]),
        ("What is Nate's dog called?", [("nate",)]),
        ("Who calls parse_header or readConfig?", [("parse", "header"), ("readconfig",)]),
        ("What changed in the PSP-4471 ticket?", [("psp",)]),
        ("What did we say on Monday, 3 March?", []),
        ("How many retries are there?", []),
        ("Hvem fikser skriveren til Kari?", [("kari",)]),
        ("Was ist mit der Datenbank und dem Timeout?", []),
        ("Wann wurde die Datenbank auf db_7 umgestellt?", []),
        ("Wann wurde die Tabelle kunde_epost gefüllt?", [("kunde", "epost")]),
        ("What Is The Timeout Of The Payment Service?", []),
        ("WHY DOES IT FAIL IN STAGE_2?", [("stage",)]),
        ("決済サービスのタイムアウトは何秒になりましたか", []),
        ("決済サービスのAPIは何ですか", [("api",)]),
        ("", []),
    ],
)
def test_the_names_in_a_question(question: str, names: list[tuple[str, ...]]) -> None:
    assert [name.words for name in names_in(question)] == names


def test_a_name_may_have_one_wrong_letter() -> None:
    found = set(spellings("kuberntes"))
    assert "kubernetes" in found
    assert {"kubernte", "ukberntes", "kuberntøs", "kuberntesx"} <= found
    assert "kubernetics" not in found
    assert not list(spellings("jon"))
    assert not list(spellings("k" * 13))
