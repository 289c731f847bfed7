"""Scenarios 58 and 59 without programs: an AppWrapper whose pods Ray's operator makes, and AppWrappers that Kueue admits.

Scenario 58 with real pods is in the e2e tier. Kueue's part is played here, by what the specification says of it (section 10).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from modelyard.kube import builtin
from modelyard.kube.conditions import is_true
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import conditions_of, owner_reference, spec_of, status_of
from modelyard.operators.codeflare.appwrapper.api import QUEUE_LABEL, QUOTA_RESERVED, Phase
from modelyard.operators.codeflare.appwrapper.kueue import with_infos, without_infos, workload_pod_sets
from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from modelyard.operators.ray.config import Settings as RaySettings
from modelyard.operators.ray.controller import ray_controller
from tests.cluster.appwrapper.scenarios.scene import (
    AW,
    NAME,
    AppWrapperScene,
    Book,
    deployment,
    template_of,
)
from tests.cluster.ray.scene import RayScene, cluster
from tests.ground import ApiGround

book = Book()
queued = book.scenario
WORKLOAD = Kind("kueue.x-k8s.io", "v1beta1", "Workload", "workloads")
"""Of its fields only those are used that both sides speak of: the queue, and the pod sets."""


@queued(58, needs_api=True)
async def a_wrapped_ray_cluster_becomes_ready_and_leaves_nothing_behind(scene: AppWrapperScene) -> None:
    assert isinstance(scene.ground, ApiGround)
    await scene.ground.install([RAY_CLUSTER])
    scene.beside = [ray_controller(RaySettings())]
    await scene.start()
    await scene.running({"template": template_of(RAY_CLUSTER.kind, NAME, spec=cluster())})
    ray = RayScene(scene.ground)
    await ray.until_pods(1, 1)
    await ray.run_pods()
    await ray.state("ready")
    await scene.condition("PodsReady", status="True", message="2 pods running; 0 pods succeeded")
    assert status_of(await scene.ground.get(AW, NAME))["phase"] == Phase.RUNNING
    await scene.ground.delete(AW, NAME)
    await scene.ground.gone(AW, NAME)
    await scene.ground.gone(RAY_CLUSTER.kind, NAME)
    assert await scene.ground.names(builtin.Pod) == []
    await scene.ground.gone(builtin.Service, f"{NAME}-head-svc")


@dataclass
class Kueue:
    """Plays Kueue, with one queue that may hold so many pods at once."""

    scene: AppWrapperScene
    quota: int
    flavor: str = "first"
    """Where pods of the next AppWrapper go."""
    names: list[str] = field(default_factory=list)
    """In the order of their coming."""

    async def submit(self, name: str, *components: Object) -> None:
        """A user makes an AppWrapper; Kueue's webhook suspends it, and its controller makes a Workload of it."""
        await self.scene.create(*components, name=name, suspend=True, labels={QUEUE_LABEL: "team"})
        made = await self.scene.phase("Suspended", name)
        spec = {"queueName": "team", "podSets": workload_pod_sets(made)}
        await self.scene.ground.create(WORKLOAD, name, ownerReferences=[owner_reference(made)], spec=spec)
        self.names.append(name)

    async def look(self) -> None:
        """Admits, in their order, those for whom there is room."""
        used = sum([await self._pods(name) for name in self.names if await self._holds_quota(name)])
        for name in self.names:
            pods = await self._pods(name)
            if pods and not await self._holds_quota(name) and used + pods <= self.quota:
                await self._admit(name)
                used += pods

    async def evict(self, name: str) -> None:
        def suspend(appwrapper: Object) -> None:
            appwrapper["spec"] = {**spec_of(without_infos(appwrapper)), "suspend": True}

        await self.scene.ground.edit(AW, name, suspend)

    async def _admit(self, name: str) -> None:
        workload = await self.scene.ground.get(WORKLOAD, name)
        infos: list[Object] = [{"nodeSelector": {"flavor": self.flavor}} for _ in spec_of(workload)["podSets"]]

        def admit(appwrapper: Object) -> None:
            appwrapper["spec"] = {**spec_of(with_infos(appwrapper, infos)), "suspend": False}

        await self.scene.ground.edit(AW, name, admit)

    async def _holds_quota(self, name: str) -> bool:
        """From its admission on, and as long as it says so."""
        found = await self.scene.ground.find(AW, name)
        return found is not None and (not spec_of(found)["suspend"] or is_true(conditions_of(found), QUOTA_RESERVED))

    async def _pods(self, name: str) -> int:
        if await self.scene.ground.find(AW, name) is None:
            return 0  # Its Workload may stay until the garbage collector comes.
        workload = await self.scene.ground.get(WORKLOAD, name)
        return sum(each["count"] for each in spec_of(workload)["podSets"])


async def flavor_of(scene: AppWrapperScene, name: str) -> str:
    """Where the pods of a Deployment go."""
    spec = spec_of(await scene.ground.get(builtin.Deployment, name))["template"]["spec"]
    return str(spec["nodeSelector"]["flavor"])


@queued(59)
async def the_third_waits_until_one_of_two_that_fill_the_quota_is_gone(scene: AppWrapperScene) -> None:
    await scene.ground.serve(WORKLOAD)
    await scene.start()
    kueue = Kueue(scene, quota=4)
    for name in ("one", "two", "three"):
        await kueue.submit(name, deployment(f"{name}-web", replicas=2))
    asked = spec_of(await scene.ground.get(WORKLOAD, "one"))["podSets"]
    assert [(each["name"], each["count"]) for each in asked] == [("one-0", 2)]
    await kueue.look()
    for name in ("one", "two"):
        await scene.phase("Running", name)
        assert await flavor_of(scene, f"{name}-web") == "first"
    await scene.phase("Suspended", "three")
    await scene.ground.absent(builtin.Deployment, "three-web")

    # As long as something is left, the quota is not free.
    await scene.hold(builtin.Deployment, "one-web")
    await scene.ground.delete(AW, "one")
    await scene.phase("Terminating", "one")
    await kueue.look()
    await scene.phase("Suspended", "three")
    await scene.let_go(builtin.Deployment, "one-web")
    await scene.ground.pass_time(6)
    await scene.ground.gone(AW, "one")
    kueue.flavor = "second"
    await kueue.look()
    await scene.phase("Running", "three")
    assert await flavor_of(scene, "three-web") == "second"

    # What is evicted gives its quota back, and may come again, elsewhere.
    await kueue.evict("two")
    evicted = await scene.phase("Suspended", "two")
    assert not is_true(conditions_of(evicted), QUOTA_RESERVED)
    await scene.ground.gone(builtin.Deployment, "two-web")
    await kueue.look()
    await scene.phase("Running", "two")
    assert await flavor_of(scene, "two-web") == "second"
