"""What the scenarios have in common: a valid MLflow, a settled one, and short names for what they look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import status_of
from modelyard.operators.mlflow.api import DEFINITIONS, MLFLOW
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from modelyard.operators.mlflow.module import module_controller
from modelyard.operators.mlflow.namespace_rbac import namespace_controller
from tests.cluster import stories
from tests.cluster.stories import named, refused

POSTGRES = "postgresql://u:p@db:5432/mlflow"
JOB = "mlflow-mg-3140-g1"
OPENSHIFT = (builtin.ConsoleLink,)


@dataclass(frozen=True)
class Server(stories.Server):
    """The tracking server, where no other container is named."""

    container_name: str = "mlflow"


@dataclass
class MLflowScene(stories.Scene):
    """A ground in which the MLflow operator is at work."""

    kind = MLFLOW.kind
    usual_name = "mlflow"
    definitions = DEFINITIONS

    settings: Settings = field(default_factory=Settings)

    async def start(self, *served: Kind, **settings: Any) -> None:
        """Serves the optional kinds and starts the operator with these settings."""
        for kind in served:
            await self.ground.serve(kind)
        self.settings = Settings(namespace=self.namespace, **settings)
        await self.resume()

    async def resume(self) -> None:
        """Starts the operator as it was before the ground was halted."""
        controllers = [mlflow_controller(self.settings)]
        if self.settings.module:
            controllers.append(module_controller(self.settings))
        if self.settings.namespace_rbac:
            controllers.append(namespace_controller(self.settings))
        await self.ground.start(controllers)

    async def create(self, name: str = "mlflow", annotations: dict[str, str] | None = None, **spec: Any) -> Object:
        """An MLflow with a valid spec; a field given as None is left out."""
        body: dict[str, Any] = {"spec": valid_spec(**spec)}
        if annotations:
            body["annotations"] = annotations
        return await self.ground.create(MLFLOW.kind, name, **body)

    async def settled(self, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """An MLflow whose migration and rollout are over."""
        await self.create(annotations=annotations, **spec)
        await self.migrate()

    async def migrate(self, job: str = JOB, version: str = "3.14.0") -> None:
        """Plays the workload controllers until the migration is recorded."""
        await self.ground.until(builtin.Job, job)
        await self.ground.job_succeeds(job)
        await self.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] > 0)
        await self.ground.deployment_ready("mlflow")
        await self.ground.until(MLFLOW.kind, "mlflow", lambda m: status_of(m).get("version") == version)
        await self.condition("Available", status="True")

    async def server(self) -> Server:
        return Server(await self.ground.get(builtin.Deployment, "mlflow"))


def valid_spec(**changes: Any) -> Object:
    spec: Object = {"serveArtifacts": True, "backendStoreUri": POSTGRES, **changes}
    return {name: value for name, value in spec.items() if value is not None}


Scenario = Callable[[MLflowScene], Awaitable[None]]
Book = stories.Book[MLflowScene]
__all__ = [
    "JOB",
    "OPENSHIFT",
    "POSTGRES",
    "Book",
    "MLflowScene",
    "Scenario",
    "Server",
    "named",
    "refused",
    "valid_spec",
]
