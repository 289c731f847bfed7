"""Metrics under the names people know, readiness that says what is missing, pages that show what goes on."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.kinds import Key
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.declaring.controller import Controller, Fixed
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.health import HealthServer, Listening
from modelyard.runtime.process.logs import configure, context
from modelyard.runtime.process.manager import Manager


def controller(*, fails: bool = False) -> Controller:
    made = Controller("catalog", Fixed((Key("default", "all"),)), owns=[ConfigMap])

    @made.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        if fails:
            raise RuntimeError("broken")
        return Desired()

    return made


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as made:
        yield made


async def client(manager: Manager) -> TestClient[Request, Application]:
    app = HealthServer(manager, Listening(debug=True), checks=[lambda: ()]).application()
    made = TestClient(TestServer(app))
    await made.start_server()
    return made


async def test_a_plane_is_ready_only_when_its_caches_are(server: ApiServer) -> None:
    manager = Manager(server.client(), [controller()])
    pages = await client(manager)
    waiting = await pages.get("/readyz")
    assert waiting.status == 503
    assert "discovery has not succeeded yet" in await waiting.text()
    assert (await pages.get("/healthz")).status == 200
    async with manager:
        await manager.idle(quiet=0.05)
        assert (await pages.get("/readyz")).status == 200
    await pages.close()


async def test_metrics_have_the_names_that_dashboards_know(server: ApiServer) -> None:
    async with Manager(server.client(), [controller()]) as manager:
        await manager.idle(quiet=0.05)
        pages = await client(manager)
        text = await (await pages.get("/metrics")).text()
        await pages.close()
    for line in (
        'controller_runtime_reconcile_total{controller="catalog",result="success"} 1.0',
        'controller_runtime_reconcile_errors_total{controller="catalog"} 0.0',
        'controller_runtime_max_concurrent_reconciles{controller="catalog"} 16.0',
        'workqueue_adds_total{controller="catalog",name="catalog"}',
        'controller_runtime_reconcile_time_seconds_bucket{controller="catalog"',
    ):
        assert line in text


async def test_debug_pages_show_queues_caches_errors_tasks_and_a_profile(server: ApiServer) -> None:
    async with Manager(server.client(), [controller(fails=True)]) as manager:
        await manager.idle(quiet=0.02)
        pages = await client(manager)
        assert (await (await pages.get("/debug/")).json())["controllers"] == ["catalog"]
        assert (await (await pages.get("/debug/caches")).json())[0]["selection"] == "configmaps"
        assert (await (await pages.get("/debug/queues")).json())[0]["passes"] >= 1
        passes = await (await pages.get("/debug/passes")).json()
        assert (passes[-1]["key"], passes[-1]["why"]) == ("default/all", "configmaps is served now")
        errors = await (await pages.get("/debug/errors")).json()
        assert [(e["key"], e["error"]) for e in errors] == [("default/all", "RuntimeError: broken")]
        assert "watch configmaps" in await (await pages.get("/debug/tasks")).text()
        assert "cumulative" in await (await pages.get("/debug/profile?seconds=0.1")).text()
        assert (await pages.get("/debug/profile?seconds=x")).status == 400
        await pages.close()


def test_log_lines_begin_with_their_date() -> None:
    stream = io.StringIO()
    for as_json, date in (
        (False, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d WARNING test: late$"),
        (True, r'\{"ts":"\d{4}-\d\d-\d\dT'),
    ):
        stream.truncate(stream.seek(0))
        handler = configure(json=as_json, stream=stream)
        try:
            logging.getLogger("test").warning("late")
        finally:
            logging.getLogger().removeHandler(handler)
        assert re.match(date, stream.getvalue().strip())


def test_log_lines_say_what_they_are_about() -> None:
    stream = io.StringIO()
    handler = configure(json=True, stream=stream)
    try:
        with context(controller="catalog", namespace="shop", name="all", reconcile=7):
            logging.getLogger("test").warning("it is %s", "late")
        line = json.loads(stream.getvalue())
    finally:
        logging.getLogger().removeHandler(handler)
    assert (line["level"], line["msg"], line["controller"], line["name"], line["reconcile"]) == (
        "warning", "it is late", "catalog", "all", 7,
    )  # fmt: skip
