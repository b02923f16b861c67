import pytest

from contextopt.engine.text.lexical import detect_language


@pytest.mark.parametrize(
    "text",
    [
        "Køen sto stille etter utrulling",
        "Vi ble enige om at fakturaene sendes på mandag og ikke fredag",
        "Fiks feilen i innloggingen",
        "Hvorfor er dette så tregt?",
        "Vi besluttede at købe nyt udstyr efter mødet",
        "Lag en ny SQL-migrasjon for users-tabellen",
    ],
)
def test_norwegian_and_danish(text: str) -> None:
    assert detect_language(text) == "no"


@pytest.mark.parametrize(
    "text",
    [
        "The queue was stuck after the deploy",
        "Add an endpoint for user registration to the public API",
        "Fix rounding",
        "",
        "1234 ==== ????",
        "日本語の文章です",
        "This note mentions København and the Tromsø office, which were closed on Monday",
        "def get_user(og): return og  # the original graph is not used",
    ],
)
def test_english_and_other_languages(text: str) -> None:
    assert detect_language(text) == "en"


def test_title_and_notes_speak_together() -> None:
    assert detect_language("API", "Vi må rydde opp i dette før sommeren") == "no"
