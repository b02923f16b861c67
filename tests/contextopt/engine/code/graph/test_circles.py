from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.code.graph.importgraph import find_circles


def test_circles() -> None:
    imports = {"a": ("b",), "b": ("c",), "c": ("a", "d"), "d": (), "e": ("d", "f"), "f": ("e",), "g": ("g",)}
    assert find_circles(imports) == [("a", "b", "c"), ("e", "f")]
    assert find_circles({}) == []


def test_a_circle_of_a_hundred_thousand_files() -> None:
    size = 100_000
    circle = {f"{number:06}": (f"{(number + 1) % size:06}",) for number in range(size)}
    assert [len(group) for group in find_circles(circle)] == [size]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=30))
def test_a_group_has_the_files_that_reach_one_another(pairs: list[tuple[int, int]]) -> None:
    imports = {str(n): tuple(sorted({str(b) for a, b in pairs if a == n})) for n in range(9)}

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        ahead = list(imports[start])
        while ahead:
            if (path := ahead.pop()) not in found:
                found.add(path)
                ahead += imports[path]
        return found

    reach = {path: reached(path) for path in imports}
    groups = {
        tuple(sorted({path} | {other for other in reach[path] if path in reach[other]})) for path in imports
    }
    assert find_circles(imports) == sorted(group for group in groups if len(group) > 1)
