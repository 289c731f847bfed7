"""The workload controllers of the laptop cluster, written with our own Controller API."""

from modelyard.local.workloads.claims import claims_controller
from modelyard.local.workloads.cronjob import cronjob_controller
from modelyard.local.workloads.deployment import deployment_controller
from modelyard.local.workloads.endpoints import endpoints_controller
from modelyard.local.workloads.job import job_controller
from modelyard.local.workloads.job_orphans import job_orphans_controller
from modelyard.local.workloads.replicaset import replicaset_controller
from modelyard.local.workloads.scheduler import Bind, scheduler_controller
from modelyard.local.workloads.statefulset import statefulset_controller
from modelyard.local.workloads.volumes import Directories, volumes_controller
from modelyard.runtime.declaring.controller import Controller


def workload_controllers(directories: Directories, bind: Bind) -> list[Controller]:
    """All of them; `directories` holds the volumes, `bind` asks the API to put a pod onto a node."""
    return [
        deployment_controller(),
        replicaset_controller(),
        statefulset_controller(),
        job_controller(),
        job_orphans_controller(),
        cronjob_controller(),
        endpoints_controller(),
        claims_controller(directories),
        volumes_controller(directories),
        scheduler_controller(bind),
    ]


__all__ = [
    "Bind", "Directories", "claims_controller", "cronjob_controller", "deployment_controller", "endpoints_controller", "job_controller",
    "job_orphans_controller", "replicaset_controller", "scheduler_controller", "statefulset_controller", "volumes_controller",
    "workload_controllers",
]  # fmt: skip
