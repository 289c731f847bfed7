"""Which kinds the plane may create for users. An admin who wants more wrapped gives its account a role of their own."""

from __future__ import annotations

from modelyard.runtime.declaring.controller import Permission

_ALL = ("get", "list", "watch", "create", "delete")
_RESOURCES = (
    ("", ("pods", "services")),
    ("apps", ("deployments", "statefulsets")),
    ("batch", ("jobs",)),
    ("jobset.x-k8s.io", ("jobsets",)),
    ("kubeflow.org", ("pytorchjobs",)),
    ("ray.io", ("rayclusters", "rayjobs")),
    ("scheduling.sigs.k8s.io", ("podgroups",)),
    ("scheduling.x-k8s.io", ("podgroups",)),
)
PERMISSIONS = tuple(Permission((group,), resources, _ALL) for group, resources in _RESOURCES)
POD_PERMISSIONS = (Permission(("",), ("pods",), ("delete",)),)
"""Pods that do not end are deleted by force."""


def is_covered(group: str, resource: str) -> bool:
    """Does the role that is installed with the plane allow it?"""
    return any(group == known and resource in resources for known, resources in _RESOURCES)
