import pytest

from contextopt.assemblies.candidates import join_runs


@pytest.mark.parametrize(
    ("runs", "joined"),
    [
        ([], []),
        ([[1]], [[1]]),
        ([[1, 2, 3], [2, 3, 4], [9, 8]], [[1, 2, 3, 4], [9, 8]]),
        ([[3, 4], [1, 2, 3]], [[1, 2, 3, 4]]),
    ],
)
def test_runs_join(runs: list[list[int]], joined: list[list[int]]) -> None:
    assert join_runs(runs) == joined
