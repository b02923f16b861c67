"""index_repo and relevant_files as a shell sees them."""

import json
from pathlib import Path
from typing import Any

import pytest

from contextopt.engine.text.tokens import get_tokenizer
from contextopt.people.models import Team
from contextopt.repositories.indexing import create_posted
from contextopt.repositories.models import Repository
from tests.commands import Run
from tests.gitrepos import SHOP, commit_files, make_git, run_git


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_git(tmp_path / "shop", {**SHOP, "logo.png": b"\0", "shop/old.py": "from .gone import x\n"})


def answer(run: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = run(*arguments, "--json")
    assert (code, err, len(out.splitlines())) == (0, "", 1)
    found: dict[str, Any] = json.loads(out)
    return found


def test_index_answers_with_the_fields_of_the_contract(run: Run, shop: Path) -> None:
    found = answer(run, "index_repo", shop)
    assert (found["files"], found["symbols"], found["imports"], found["unresolved"]) == (7, 5, 2, 1)
    assert found["skipped"] == [{"path": "logo.png", "reason": "binary"}]
    assert found["unresolved_imports"] == [{"path": "shop/old.py", "line": 1, "target": ".gone"}]
    assert (found["parsed"], found["revision"]) == (7, run_git(shop, "rev-parse", "HEAD"))
    assert 0 < found["seconds"] < 60
    assert found["circles"] == []
    assert answer(run, "index_repo", "shop")["parsed"] == 0


def test_index_in_words(run: Run, shop: Path) -> None:
    code, out, _ = run("index_repo", shop)
    assert code == 0
    assert "shop at " in out
    assert "7 files, 5 symbols, 2 imports between them, 1 unresolved" in out
    assert "skipped logo.png: binary" in out
    assert "unresolved shop/old.py:1: .gone" in out


def test_one_of_each_is_singular(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text("def total(): ...\n")
    _, out, _ = run("index_repo", tmp_path)
    assert ": 1 file, 1 symbol, 0 imports between them, 0 unresolved\n" in out
    assert ", 1 file parsed in " in out


def test_relevant_indexes_a_folder_first(run: Run, shop: Path) -> None:
    found = answer(run, "relevant_files", shop, "--task", "convert currency", "--budget", 400)
    assert found["ranked"][0]["path"] == "shop/currency.py"
    assert found["ranked"][0].keys() == {"path", "score", "parts"}
    parts = found["ranked"][0]["parts"]
    assert found["ranked"][0]["score"] == pytest.approx(sum(parts.values()), abs=1e-6)
    assert found["tokens"] == get_tokenizer("cl100k_base").count(found["text"]) <= 400
    assert Repository.objects.get().files == 7
    commit_files(shop, "Exchange", {"exchange.py": "def convert_currency(): ...\n"})
    again = answer(run, "relevant_files", shop, "--task", "convert currency")
    assert "exchange.py" in [file["path"] for file in again["ranked"][:2]]
    assert (
        answer(run, "relevant_files", "shop", "--task", "convert currency")["revision"] == again["revision"]
    )


def test_relevant_in_words(run: Run, shop: Path) -> None:
    code, out, _ = run("relevant_files", shop, "--task", "convert currency", "--seed", "shop/mail.py")
    assert code == 0
    assert "def convert(amount):" in out
    assert "shop/mail.py  (" in out
    assert "of 8,000 tokens (cl100k_base)" in out


@pytest.mark.parametrize("budget", [0, 1, 5, 20, 60])
def test_small_budgets_hold(run: Run, shop: Path, budget: int) -> None:
    found = answer(run, "relevant_files", shop, "--task", "convert currency", "--budget", budget)
    assert found["tokens"] == get_tokenizer("cl100k_base").count(found["text"]) <= budget


def test_a_name_stands_for_what_was_indexed(run: Run, shop: Path) -> None:
    first = answer(run, "index_repo", shop)["revision"]
    commit_files(shop, "Exchange", {"exchange.py": "def convert_currency(): ...\n"})
    assert answer(run, "relevant_files", "shop", "--task", "x")["revision"] == first


class TestManyTasks:
    def test_each_line_from_its_revision(self, run: Run, shop: Path, tmp_path: Path) -> None:
        first = run_git(shop, "rev-parse", "HEAD")
        second = commit_files(shop, "Exchange", {"exchange.py": "def convert_currency(): ...\n"})
        lines = [
            {"id": "a", "task": "convert currency", "rev": first},
            {"id": 2, "task": "convert currency", "rev": second, "budget": 50},
            {"id": "c", "task": "convert currency"},
            {"id": "d", "task": "convert currency", "rev": "main~1"},
        ]
        tasks = tmp_path / "tasks.jsonl"
        tasks.write_text("".join(json.dumps(line) + "\n" for line in lines))
        code, out, err = run("relevant_files", shop, "--tasks", tasks, "--json")
        found = [json.loads(line) for line in out.splitlines()]
        assert (code, err) == (0, "")
        assert [item["id"] for item in found] == ["a", 2, "c", "d"]
        assert [item["revision"] for item in found] == [first, second, second, first]
        assert ["exchange.py" in item["text"] for item in found] == [False, True, True, False]
        assert found[1]["tokens"] <= 50
        single = answer(run, "relevant_files", shop, "--task", "convert currency", "--rev", first)
        assert {**single, "id": "a"} == found[0]
        assert found[3] == {**found[0], "id": "d"}

    def test_bad_lines_are_named(self, run: Run, shop: Path, tmp_path: Path) -> None:
        tasks = tmp_path / "tasks.jsonl"
        tasks.write_text(
            '{"id": 1, "task": "mail"}\nnonsense\n{"id": 2}\n{"task": "x"}\n'
            '{"id": 3, "task": "x", "rev": "nowhere"}\n{"id": 4, "task": "x", "budget": -1}\n'
            '{"id": 5, "task": "x", "tsak": "y"}\n{"id": 6, "task": "x", "rev": 7}\n'
            '{"id": 7, "task": "mail"}\n{"id": 8, "seeds": ["shop/mail.py", "shop/mial.py"]}\n'
            '{"id": 9, "seeds": ["shop/mial.py"], "rev": "HEAD"}\n'
            f'{{"id": 10, "task": "x", "rev": "{"r" * 200_000}"}}\n'
        )
        code, out, err = run("relevant_files", shop, "--tasks", tasks)
        assert code == 1
        assert "has no file 'shop/mial.py'" in err
        assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 7]
        named = [line.split(": ")[1] for line in err.splitlines() if line.startswith("rejected")]
        assert named == ["row", "task", "id", "rev", "budget", "tsak", "rev", "seeds", "seeds", "rev"]

    def test_no_such_file(self, run: Run, shop: Path) -> None:
        code, _, err = run("relevant_files", shop, "--tasks", "/nowhere.jsonl")
        assert (code, "'/nowhere.jsonl' does not exist" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["index_repo", "/nowhere/at/all"], "REPO"),
        (["index_repo", "{shop}", "--rev", "nowhere"], "--rev"),
        (["index_repo", "{shop}/shop", "--rev", "HEAD"], "--rev"),
        (["index_repo", "posted"], "REPO"),
        (["index_repo", "{shop}", "--team", "nobody"], "--team"),
        (["relevant_files", "nothing", "--task", "x"], "REPO"),
        (["relevant_files", "{shop}"], "--task"),
        (["relevant_files", "{shop}", "--task", " "], "--task"),
        (["relevant_files", "{shop}", "--task", "x", "--tasks", "y"], "--task"),
        (["relevant_files", "{shop}", "--task", "x", "--rev=-x"], "--rev"),
        (["relevant_files", "{shop}", "--task", "x", "--budget", "many"], "--budget"),
        (["relevant_files", "{shop}", "--task", "x", "--budget", "-1"], "--budget"),
        (["relevant_files", "{shop}", "--task", "x", "--limit", "0"], "--limit"),
        (["relevant_files", "{shop}", "--task", "x", "--seed", "/etc/passwd"], "--seed"),
        (["relevant_files", "{shop}", "--task", "x", "--seed", "shop/mial.py"], "--seed"),
        (["relevant_files", "{shop}", "--seed", "shop", "--rev", "HEAD"], "--seed"),
        (["relevant_files", "posted", "--seed", "shop/mial.py"], "--seed"),
        (["relevant_files", "{shop}", "--task", "x", "--encoding", "klingon"], "--encoding"),
        (["relevant_files", "posted", "--task", "x", "--rev", "HEAD"], "--rev"),
    ],
)
def test_unusable_calls_name_the_field(run: Run, shop: Path, arguments: list[str], field: str) -> None:
    create_posted(team=Team.objects.ensure_default(), name="posted", files=SHOP, actor="test")
    code, out, err = run(*[part.format(shop=shop) for part in arguments])
    assert (code, out) == (2, "")
    assert err.startswith(f"{field}: ")


def test_another_team_sees_nothing(run: Run, shop: Path, other_team: Team) -> None:
    answer(run, "index_repo", shop)
    code, _, err = run("relevant_files", "shop", "--task", "x", "--team", other_team.slug)
    assert (code, err) == (2, "REPO: 'shop' is neither a folder here nor an indexed repository")
