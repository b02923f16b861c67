import pytest

from contextopt.retryafter import MAX_SECONDS, read_retry_after


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7), ("0.5", 0.5), ("-1", 0), ("86400", MAX_SECONDS),
        (None, None), ("", None), ("soon", None), ("nan", None), ("inf", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)  # fmt: skip
def test_read_retry_after(header: str | None, seconds: float | None) -> None:
    assert read_retry_after(header) == seconds
