"""A collector, and the settings that make this process send to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from contextopt.telemetry import exporter
from tests.collector import Collector, run_collector


@pytest.fixture
def collector(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with run_collector() as collector:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = collector.url
        # The library reads the environment itself.
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        exporter.start.cache_clear()
        yield collector
        if exporter.start.cache_info().currsize:
            exporter.start().shutdown()
        exporter.start.cache_clear()
