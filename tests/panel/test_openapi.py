"""The API holds what its document says, whatever it is asked: schemathesis asks."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from midflight.panel.openapi import document

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


API = schemathesis.openapi.from_dict(document())


@API.parametrize()
@settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck), deadline=None)
def test_answers_are_what_the_document_says(case, server):
    case.call_and_validate(base_url=f"http://127.0.0.1:{server.port}", checks=CHECKS)


@pytest.mark.parametrize(
    "url",
    [
        "/api/projects",
        "/api/runs?sort=task.sums",
        "/api/runs/1",
        "/api/runs/2?reference=run:1",
        "/api/runs/1?reference=best&metric=response_length",
        "/api/series?keys=*&runs=1,2&walls=1",
        "/api/compare?baseline=1&candidates=2,1@first&slices=1",
        "/api/groups?pattern=(.%2B)-seed%5Cd%2B",
        "/api/scaling?runs=1,2",
        "/api/items?run=1&task=sums",
        "/api/item?item=i3&runs=1,2&task=sums",
        "/api/text?column=text&item=i3&run=1&task=sums",
        "/api/findings",
        "/api/gates",
        "/api/evaluations",
        "/api/changes",
    ],
)
def test_full_answers_are_too(server, url):
    import requests

    path = "/api/runs/{id}" if url.startswith("/api/runs/") else url.partition("?")[0]
    response = requests.get(f"http://127.0.0.1:{server.port}{url}", timeout=30)
    assert response.status_code == 200, response.text
    API[path]["get"].validate_response(schemathesis.Response.from_requests(response, verify=False))
