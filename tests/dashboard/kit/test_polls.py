"""Polled elements keep open what the reader has opened."""

import re
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

TEMPLATES = Path(settings.BASE_DIR) / "templates"
PARTIAL = re.compile(r"{% partialdef (\S+) inline %}")
INCLUDE = re.compile(r'{% include "([^"]+)"')


def read_with_includes(name: str) -> str:
    text = (TEMPLATES / name).read_text()
    return text + "".join(read_with_includes(each) for each in set(INCLUDE.findall(text)))


def polled_elements() -> Iterator[tuple[str, str]]:
    """Yield each template with a poll and the text of its polled partial, or all of it if it has none."""
    for path in TEMPLATES.rglob("*.html"):
        text, name = path.read_text(), str(path.relative_to(TEMPLATES))
        parts = [
            text.partition(found.group())[2].partition(f"{{% endpartialdef {found[1]} %}}")[0]
            for found in PARTIAL.finditer(text)
        ] or [text]
        for part in parts:
            start = part.split(">\n")[0]
            if 'hx-trigger="every' in start:
                yield name, part + "".join(read_with_includes(each) for each in set(INCLUDE.findall(part)))


def test_details_that_are_polled_have_an_id() -> None:
    polled = list(polled_elements())
    assert len(polled) >= 10
    nameless = [
        (name, tag)
        for name, text in polled
        for tag in re.findall(r"<details\b.*?>", text, re.DOTALL)
        # Votes belong to answered turns, which are not polled.
        if not re.search(r"\sid=", tag) and 'class="why"' not in tag
    ]
    assert nameless == []
