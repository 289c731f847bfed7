"""The cluster tier: the same test on the embedded API server and, with `--apiserver real`, on a real kube-apiserver."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from modelyard.kube.builtin import CustomResourceDefinition, Namespace
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.local.apiserver import ApiServer
from tests.real.build import Unavailable
from tests.real.cluster import RealCluster

_names = itertools.count(1)


@dataclass
class Api:
    """An API server under test. Every test gets namespaces of its own; on the embedded server, a server of its own."""

    client: Client
    server: ApiServer | None = None
    cluster: RealCluster | None = None
    _clients: list[Client] = field(default_factory=list)

    @property
    def real(self) -> bool:
        return self.cluster is not None

    async def namespace(self, prefix: str = "t") -> str:
        """A fresh namespace."""
        name = f"{prefix}-{os.getpid()}-{next(_names)}"
        await self.client.create(Namespace, {"metadata": {"name": name}})
        return name

    def as_user(self, token: str) -> Client:
        """A client with a bearer token."""
        if self.cluster is not None:
            client = connect(self.cluster.write_kubeconfig(f"user-{next(_names)}", token))
        else:
            assert self.server is not None
            client = Client(self.server.transport(token=token))
        self._clients.append(client)
        return client

    async def forget_conversions(self) -> None:
        """No definition may point at a webhook of a test that is over: a namespace that ends could not be emptied."""
        for crd in (await self.client.list(CustomResourceDefinition)).items:
            if crd["spec"].get("conversion", {}).get("strategy") == "Webhook":
                stanza = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
                await self.client.patch(CustomResourceDefinition, "", crd["metadata"]["name"], stanza)

    async def close(self) -> None:
        await self.forget_conversions()
        for client in self._clients:
            await client.close()
        await self.client.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `real` need the real server; elsewhere they are skipped and run in `make test-real`."""
    if config.getoption("--apiserver") == "real":
        return
    skip = pytest.mark.skip(reason="needs the real kube-apiserver: runs in make test-real")
    for item in items:
        if item.get_closest_marker("real"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def real_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster | None]:
    """The real servers, one set for the whole run; None on the embedded tier."""
    if request.config.getoption("--apiserver") != "real":
        yield None
        return
    try:
        with RealCluster() as cluster:
            yield cluster
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(why))


@pytest.fixture
async def api(real_cluster: RealCluster | None) -> AsyncIterator[Api]:
    if real_cluster is None:
        async with ApiServer() as server:
            yield Api(server.client(), server=server)
        return
    found = Api(connect(Path(real_cluster.kubeconfig)), cluster=real_cluster)
    yield found
    await found.close()
