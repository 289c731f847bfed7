"""Binds the platform's groups in namespaces that ask to be workspaces of an `MLflow`. Off by default."""

from __future__ import annotations

from collections.abc import Iterable

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import is_deleting, labels_of, name_of, spec_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.parts import build
from modelyard.operators.parts.mappings import everyone
from modelyard.operators.parts.platform import AUTH_NAME, Auth
from modelyard.runtime.declaring.controller import Controller, Owns, Permission, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Policy
from modelyard.runtime.declaring.world import World

WORKSPACE = "opendatahub.io/global-mlflow-workspace"
MANAGED_BY = {"app.kubernetes.io/managed-by": "mlflow-operator"}
VIEW, EDIT = "odh-group-mlflow-view", "odh-group-mlflow-edit"


def namespace_controller(settings: Settings) -> Controller:
    """The bindings of all workspaces of one MLflow: they are its children, so that they go with it."""
    controller = Controller(
        "mlflow-namespaces",
        MLFLOW.kind,
        owns=[Owns(builtin.RoleBinding, labels=MANAGED_BY, verbs=("get", "list", "watch", "create"))],
        watches=[
            Watch(builtin.Namespace, to=_workspace_of, metadata_only=True),
            Watch(Auth, to=everyone(MLFLOW.kind), name=AUTH_NAME, optional=True),
        ],
        permissions=[
            Permission(
                (builtin.ClusterRole.group,),
                (builtin.ClusterRole.plural,),
                ("bind",),
                names=(settings.view_role, settings.edit_role),
                everywhere=True,
            ),
            Permission(
                (builtin.RoleBinding.group,),
                (builtin.RoleBinding.plural,),
                ("update", "patch", "delete"),
                names=(VIEW, EDIT),
            ),
        ],
        predecessor=settings.predecessor,
    )

    @controller.reconcile
    def reconcile(mlflow: Object, world: World) -> Desired:
        auth = world.get(Auth, "", AUTH_NAME) if world.serves(Auth) else None
        if auth is None:
            return Desired()
        admins, allowed = groups(auth, "adminGroups"), groups(auth, "allowedGroups")
        viewers = list(dict.fromkeys((*allowed, *admins)))
        return Desired(
            [
                _binding(name_of(namespace), name, role, members)
                for namespace in world.list(builtin.Namespace, labels={WORKSPACE: name_of(mlflow)})
                if not is_deleting(namespace)
                for name, role, members in ((VIEW, settings.view_role, viewers), (EDIT, settings.edit_role, admins))
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


def _binding(namespace: str, name: str, role: str, members: list[str]) -> Child:
    subjects = [build.group_subject(member) for member in members]
    binding = build.role_binding(name, namespace, role, subjects, MANAGED_BY, role_kind="ClusterRole")
    return Child(binding, policy=Policy.RECREATE)


def _workspace_of(namespace: Object, reader: Reader) -> Iterable[Key]:
    instance = labels_of(namespace).get(WORKSPACE)
    return [Key("", instance)] if instance else []
