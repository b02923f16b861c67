"""Detecting the kind of task in a description, and words that only look like a pattern's."""

import json

import pytest
from hypothesis import given

from benchmarks.agents.strategies import TICKETS
from contextopt.engine.agents.taskpatterns import GENERAL, PATTERNS, detect_task_pattern
from tests.contextopt.engine.strategies import texts

NAMES = [pattern.name for pattern in PATTERNS]


@pytest.mark.parametrize(
    ("description", "pattern"),
    [
        ("Lag en ny SQL-migrasjon for users-tabellen", "database migration"),
        ("Legg til et nytt API-endpoint for brukerregistrering", "new api endpoint"),
        ("Fiks TypeScript-feilen i auth.ts", "fix bug"),
        ("Refaktorer agent.ts til mindre moduler", "refactoring"),
        ("Implementer OWASP security headers", "security improvement"),
        ("FIX the BUG in Auth", "fix bug"),
        ("fix typescript error", "fix bug"),
        ("Migrate the users table", "database migration"),
        ("Feilsøk avrundingen", "fix bug"),
        ("Flere testene for køen", "add tests"),
        ("En ny innstillingsside", "frontend change"),
        ("Document the retry rules", "documentation"),
        ("Set up a linter", "configuration"),
        ("Avinstaller den gamle agenten", "configuration"),
        ("Caching of rates", "performance optimization"),
        ("", GENERAL),
        ("a b cd", GENERAL),
    ],
)
def test_labelled_descriptions(description: str, pattern: str) -> None:
    assert detect_task_pattern(description) == pattern


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("database migration", "Databasemigrering datamigreringen migreringsskript migrationscript sqlfil"),
        ("new api endpoint", "apikall apinøkkelen apiklient apikeys"),
        ("fix bug", "errorhåndtering errormeldinger"),
        ("add tests", "testskript testskriptene brukertest brukertester komponenttester testplan"),
        ("security improvement", "authflow authtokens oauthserver"),
        ("frontend change", "komponentbiblioteket frontendkode microfrontend mikrofrontends sideoppsett"),
        ("configuration", "oppsettsguide oppsettsfilen setupfil setupskript installeres"),
        ("documentation", "readmefil readmefilen"),
        ("performance optimization", "cachelag cachelaget cacheable hastighetsforbedring"),
    ],
)
def test_compounds(pattern: str, words: str) -> None:
    for word in words.split():
        assert detect_task_pattern(f"Ny {word}") == pattern, word


@pytest.mark.parametrize(
    "word",
    [
        "rapid", "inside", "Docker", "require", "build", "guide", "suite", "latest", "contest", "protest",
        "prefix", "suffix", "specific", "special", "inspect", "outside", "consider", "president", "author",
        "document store", "terror", "mirror", "fixtures", "debugging", "immigration", "doctor",
        "optimistic", "installments",
        "sikkerhetskopi", "usikkerhet", "saksbehandler", "handler om", "the server side",
        "fixed price", "Migrate to Vite", "for to uker siden", "therapist", "capital", "splendid",
        "emigration", "immigrering", "emigrerte", "arbeidsimmigrasjon", "capitalisation", "apiary", "terapi",
        "apikal", "papir", "testament", "attest", "attester", "detest", "errant", "authority", "authentic",
        "sidelengs", "betrakte", "upsetting", "readmission", "hastig", "cachalot", "installatør",
    ],
)  # fmt: skip
def test_words_that_only_look_like_a_pattern(word: str) -> None:
    assert detect_task_pattern(f"Nytt {word}") not in NAMES


@pytest.mark.parametrize(
    ("description", "pattern"),
    [
        ("fix: the migration of prices", "fix bug"),
        ("Fix(api): Handle an empty page", "fix bug"),
        ("hotfix: show the documentation", "fix bug"),
        ("perf(core)!: read the SQL once", "performance optimization"),
        ("docs: describe the API's errors", "documentation"),
        ("test: cover the bug in the handler", "add tests"),
        ("refactor(ui): split the page", "refactoring"),
        ("style: sort the imports of the tests", "refactoring"),
        ("build(deps): fix the lock file", "configuration"),
        ("ci: run the tests in parallel", "configuration"),
        ("chore: fiks feil versjon", "configuration"),
        ("feat: vis feilmeldinger på siden", "frontend change"),
        ("feat(api): list the failed tasks", "new api endpoint"),
        ("feat(parser)!: accept trailing commas everywhere", "parser accept trailing"),
        ("\n docs!: rydd i migrasjonene", "documentation"),
    ],
)
def test_the_prefix_of_a_commit_decides(description: str, pattern: str) -> None:
    assert detect_task_pattern(description) == pattern


@pytest.mark.parametrize(
    "description",
    ["The fix: migrate a table by SQL", "docs:// is a migration", "test:", "perf(a(b)): an SQL query"],
)
def test_other_colons_are_no_prefix(description: str) -> None:
    assert detect_task_pattern(description) in {"database migration", "add tests"}


def test_other_tasks_are_named_by_their_first_words() -> None:
    assert detect_task_pattern("Implementer fancy widget system med konfetti") == "implementer fancy widget"
    assert detect_task_pattern('The "Big" Green, Heron!') == "green heron"


def test_the_labelled_tickets() -> None:
    """A change of the word lists may not do worse than this. `benchmarks/strategies.py` has the figures."""
    rows = [json.loads(line) for line in TICKETS.read_text().splitlines()]
    found = [(row["pattern"], detect_task_pattern(row["task"])) for row in rows]
    assert sum(1 for label, said in found if said in NAMES and said != label) <= 2
    assert sum(1 for label, said in found if said == label) >= 107


@given(texts)
def test_any_text_has_a_pattern(text: str) -> None:
    pattern = detect_task_pattern(text)
    assert pattern
    assert len(pattern) <= 120
    assert '"' not in pattern
    assert len(pattern.splitlines()) == 1
