"""Generated requests against the whole application: no 5xx, and answers that match their description."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from config.urls import api as ninja_api
from config.wsgi import application
from contextopt.spaces.inputs import RecordPatch
from contextopt.spaces.records import update_record
from tests import factories

schema = schemathesis.openapi.from_dict(ninja_api.get_openapi_schema(path_prefix="/api/"))
schema.app = application
# Each field's limits, one by one, take longer than all other tests of the API together.
schema.config.phases.coverage.enabled = "THOROUGH" in os.environ


# Existing objects, filled in by the fixture: made-up paths alone would find nothing.
places: dict[str, Any] = {}


@schema.hook
def map_path_parameters(_context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Point two thirds of the paths at existing objects."""
    if path_parameters and len(str(path_parameters)) % 3:
        return {name: places.get(name, value) for name, value in path_parameters.items()}
    return path_parameters


@schema.hook
def map_body(_context: Any, body: Any) -> Any:
    if isinstance(body, dict) and "space" in body:
        return {**body, "space": places.get("slug", body["space"])}
    return body


@pytest.fixture(autouse=True)
def _connection_stays_open() -> Iterator[None]:
    """Keep the test's transaction open across requests, as Django's own test client does."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def secret(shared: None) -> str:
    space = factories.make_space(factories.make_team())
    for index in range(3):
        factories.make_record(space, external_id=str(index))
    record = factories.make_record(space)
    update_record(record=record, changes=RecordPatch(title="Changed"), actor="test")
    assembly = factories.make_assembly(space)
    factories.make_profile(space.team)
    task = factories.make_task(space.team)
    factories.make_attempt(task)
    places.update(slug=space.slug, record_id=record.pk, assembly_id=assembly.id, version=1, number=1)
    factories.make_finding(task)
    places.update(phase="building", task_id=task.pk, finding_id="F-001")
    return factories.make_key(space.team)[1]


# A thread of the pool or of the broker may draw a random number while an example is made.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@schema.parametrize()
@settings(
    max_examples=4,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_it(case: Any, secret: str) -> None:
    response = case.call(headers={"Authorization": f"Bearer {secret}", "Host": "localhost"})
    case.validate_response(
        response,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )
