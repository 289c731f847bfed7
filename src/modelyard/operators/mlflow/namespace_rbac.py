"""Binds the platform's groups in namespaces that ask to be workspaces of an `MLflow`. Off by default."""

from __future__ import annotations

from collections.abc import Iterable

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import labels_of, name_of, owner_reference, spec_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.parts import build
from modelyard.runtime.controller import Controller, Owns, Permission, Reader, Watch
from modelyard.runtime.desired import Child, Desired, Ownership, Policy
from modelyard.runtime.world import World

WORKSPACE = "opendatahub.io/global-mlflow-workspace"
MANAGED_BY = {"app.kubernetes.io/managed-by": "mlflow-operator"}
VIEW, EDIT = "odh-group-mlflow-view", "odh-group-mlflow-edit"
AUTH_NAME = "auth"

Auth = Kind("services.platform.opendatahub.io", "v1alpha1", "Auth", "auths", namespaced=False)


def namespace_controller(settings: Settings) -> Controller:
    """The controller of the two RoleBindings in each namespace."""
    controller = Controller(
        "mlflow-namespaces",
        builtin.Namespace,
        owns=[Owns(builtin.RoleBinding, labels=MANAGED_BY)],
        watches=[
            Watch(MLFLOW.kind, to=_workspaces_of),
            Watch(Auth, to=_all_workspaces, optional=True),
        ],
        permissions=[
            Permission(
                (builtin.ClusterRole.group,),
                (builtin.ClusterRole.plural,),
                ("bind",),
                names=(settings.view_role, settings.edit_role),
            )
        ],
    )

    @controller.reconcile
    def reconcile(namespace: Object, world: World) -> Desired:
        instance = labels_of(namespace).get(WORKSPACE)
        mlflow = world.get(MLFLOW.kind, "", instance) if instance else None
        auth = world.get(Auth, "", AUTH_NAME) if world.serves(Auth) else None
        if mlflow is None or auth is None:
            return Desired()
        admins, allowed = groups(auth, "adminGroups"), groups(auth, "allowedGroups")
        return Desired(
            [
                _binding(namespace, mlflow, VIEW, settings.view_role, list(dict.fromkeys((*allowed, *admins)))),
                _binding(namespace, mlflow, EDIT, settings.edit_role, admins),
            ]
        )

    return controller


def groups(auth: Object, field: str) -> list[str]:
    """A list of groups; something else is an error, so that nobody is let in or locked out by a typing mistake."""
    value = spec_of(auth).get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(group, str) for group in value):
        raise ValueError(f"Auth {name_of(auth)} cannot be used: spec.{field} must be a list of strings")
    return value


def _binding(namespace: Object, mlflow: Object, name: str, role: str, members: list[str]) -> Child:
    binding = build.role_binding(
        name,
        name_of(namespace),
        role,
        [build.group_subject(member) for member in members],
        MANAGED_BY,
        role_kind="ClusterRole",
    )
    binding["metadata"]["ownerReferences"] = [owner_reference(mlflow)]
    return Child(binding, policy=Policy.RECREATE, ownership=Ownership.TRACKED)


def _workspaces_of(mlflow: Object, reader: Reader) -> Iterable[Key]:
    return [
        Key("", name_of(namespace)) for namespace in reader.list(builtin.Namespace, labels={WORKSPACE: name_of(mlflow)})
    ]


def _all_workspaces(auth: Object, reader: Reader) -> Iterable[Key]:
    if name_of(auth) != AUTH_NAME:
        return []
    return [Key("", name_of(found)) for found in reader.list(builtin.Namespace) if WORKSPACE in labels_of(found)]
