from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.code.graph.parsing import parse_file
from contextopt.engine.code.packing import FULL, HUNKS, PATH, SIGNATURES, Packed, Policy, Source, pack
from contextopt.engine.text.tokens import HeuristicTokenizer, get_tokenizer
from contextopt.engine.validation import InvalidValue

CL100K = get_tokenizer("cl100k_base")


@dataclass(frozen=True)
class Hit:
    path: str
    score: float = 1.0


def module(name: str, functions: int) -> str:
    bodies = [
        f"def {name}_{number}(left, right):\n    total = left * {number}\n    return total - {number}\n"
        for number in range(functions)
    ]
    return "\n\n".join(bodies)


def sources(files: Mapping[str, str]) -> dict[str, Source]:
    return {
        path: Source(text, parse_file(path, text.encode("utf-8", "replace"))) for path, text in files.items()
    }


def packed(files: Mapping[str, str], budget: int, query: str = "") -> Packed:
    return pack([Hit(path) for path in files], sources(files), budget, CL100K, query=query)


def test_a_small_repository_is_shown_whole() -> None:
    files = {"a.py": "import b\n", "b.py": "x = 1\n"}
    result = packed(files, 1_000)
    assert result.text == "## a.py\nimport b\n## b.py\nx = 1\n"
    assert [(file.path, file.mode, file.spans) for file in result.files] == [
        ("a.py", FULL, ((1, 1),)),
        ("b.py", FULL, ((1, 1),)),
    ]
    assert result.tokens == CL100K.count(result.text)


def test_a_large_file_shows_what_the_task_is_about() -> None:
    text = module("price", 40) + "\n\ndef refund(order):\n    return order.money_back()\n"
    result = packed({"shop.py": text}, 300, "fix the refund of an order")
    (file,) = result.files
    assert file.mode == HUNKS
    assert "return order.money_back()" in result.text
    start, end = next(span for span in file.spans if "refund" in text.split("\n")[span[0] - 1])
    assert text.split("\n")[start - 1 : end][-1].strip() == "return order.money_back()"


def test_without_words_there_are_signatures() -> None:
    result = packed({"shop.py": module("price", 40)}, 300)
    (file,) = result.files
    assert (file.mode, file.spans) == (SIGNATURES, ())
    assert "def price_0(left, right)" in result.text
    assert "total" not in result.text


def test_files_that_are_not_shown_are_named() -> None:
    files = {f"m{number:02}.py": module(f"f{number}", 30) for number in range(30)}
    result = packed(files, 1_000)
    modes = [file.mode for file in result.files]
    assert modes == sorted(modes, key=[FULL, HUNKS, SIGNATURES, PATH].index)
    assert PATH in modes
    assert result.text.rstrip().split("\n")[-1].startswith("m")


def test_files_come_in_the_order_of_their_rank() -> None:
    files = {name: module(name[0], 3) for name in ("z.py", "a.py", "m.py")}
    assert [file.path for file in packed(files, 2_000).files] == list(files)


def test_binary_and_unknown_files_are_only_named() -> None:
    known = sources({"a.py": "x = 1\n"}) | {"logo.png": Source("", parse_file("logo.png", b"\0\0"))}
    result = pack([Hit("logo.png"), Hit("gone.py"), Hit("a.py")], known, 1_000, CL100K)
    assert [(file.path, file.mode) for file in result.files] == [
        ("a.py", FULL),
        ("logo.png", PATH),
        ("gone.py", PATH),
    ]


def test_an_empty_file_says_so() -> None:
    assert packed({"a/__init__.py": ""}, 100).text == "## a/__init__.py (empty)\n"


def test_a_path_cannot_break_out_of_its_line() -> None:
    assert packed({"a\n## b.py": "x = 1"}, 100).text.count("\n## ") == 0


@pytest.mark.parametrize("budget", [-1, True, 1.5])
def test_the_budget_is_a_whole_number(budget: int) -> None:
    with pytest.raises(InvalidValue):
        packed({}, budget)


@pytest.mark.parametrize("values", [(0, 0.5), (4, 0), (4, 1.1), (float("nan"), 0.5)])
def test_a_policy_is_checked(values: tuple[float, float]) -> None:
    with pytest.raises(InvalidValue):
        Policy(*values)


def test_no_budget_holds_nothing() -> None:
    assert packed({"a.py": "x = 1"}, 0) == Packed("", (), 0)


LINES = st.text(alphabet="ab(){}:#/ \t\r\x0c\u2028é数\ud83d\ude00_=\"'", max_size=40)
TEXTS = st.lists(LINES, max_size=40).map("\n".join)
PATHS = st.sampled_from([f"{letter}.{ending}" for letter in "abcde" for ending in ("py", "ts", "md", "txt")])


@given(
    st.dictionaries(PATHS, TEXTS, max_size=8),
    st.integers(0, 400),
    st.text(alphabet="ab ", max_size=10),
    st.sampled_from([CL100K, HeuristicTokenizer()]),
)
def test_the_budget_holds_for_anything(
    files: dict[str, str], budget: int, query: str, tokenizer: HeuristicTokenizer
) -> None:
    files = {path: text.encode("utf-8", "replace").decode() for path, text in files.items()}
    result = pack([Hit(path) for path in files], sources(files), budget, tokenizer, query=query)
    assert result.tokens == tokenizer.count(result.text) <= budget
    assert len({file.path for file in result.files}) == len(result.files) <= len(files)
    for file in result.files:
        lines = files[file.path].split("\n")
        for start, end in file.spans:
            assert 1 <= start <= end <= len(lines)
            assert "\n".join(lines[start - 1 : end]).rstrip() in result.text


def test_room_left_over_goes_to_the_best_file() -> None:
    files = {"best.py": module("price", 60), "other.py": "x = 1\n"}
    best, other = (
        pack([Hit(path) for path in files], sources(files), 1_000, CL100K, query="price", policy=policy)
        for policy in (Policy(), Policy(uses_leftover=False))
    )
    assert other.tokens < best.tokens <= 1_000
    assert best.files[0].tokens > other.files[0].tokens
    assert [file.path for file in best.files] == list(files)


def test_a_lower_score_gets_a_smaller_share() -> None:
    policy = Policy()
    equal, falling = policy.shares(1_000, [2.0] * 4), policy.shares(1_000, [2.0, 1.0, 0.5, -0.1])
    assert falling[0] > equal[0]
    assert falling[1:] < equal[1:]
    assert sum(equal) == pytest.approx(sum(falling)) == pytest.approx(970)
    assert Policy(score_power=0.0).shares(1_000, [2.0, 1.0, 0.5, -0.1]) == equal


@given(st.lists(st.floats(-9, 9), max_size=30), st.integers(0, 100_000))
def test_shares_fall_and_fill_the_budget(scores: list[float], budget: int) -> None:
    shares = Policy().shares(budget, sorted(scores, reverse=True))
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(0.97 * budget if scores else 0)
