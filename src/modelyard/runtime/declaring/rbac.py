"""The least permissions that a set of controllers needs, from what they declare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from modelyard.kube.builtin import CustomResourceDefinition, Event, Lease
from modelyard.kube.crd import Definition
from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.declaring.controller import Controller, Permission, Watch
from modelyard.runtime.webhooks import Webhook, access_review

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "patch")
_ORDER = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@dataclass
class Grants:
    """Rules in the making: verbs by place, group, resource and object names. `""` as place is the whole cluster."""

    verbs: dict[tuple[str, str, str, tuple[str, ...]], set[str]] = field(default_factory=dict)

    def add(self, place: str, group: str, resource: str, verbs: Iterable[str], names: tuple[str, ...] = ()) -> None:
        self.verbs.setdefault((place, group, resource, names), set()).update(verbs)

    def rules(self, place: str) -> list[Object]:
        """One rule for each set of verbs, with the resources of a group together."""
        by_rule: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
        for (where, group, resource, names), verbs in self.verbs.items():
            if where == place:
                by_rule.setdefault((group, _sorted(verbs), names), []).append(resource)
        rules = []
        for (group, allowed, names), resources in sorted(by_rule.items()):
            rule: Object = {"apiGroups": [group], "resources": sorted(resources), "verbs": list(allowed)}
            if names:
                rule["resourceNames"] = list(names)
            rules.append(rule)
        return rules

    @property
    def places(self) -> list[str]:
        return sorted({place for place, _, _, _ in self.verbs})


def grants(
    controllers: Sequence[Controller],
    *,
    webhooks: Sequence[Webhook] = (),
    namespace: str | None = None,
    home: str = "",
) -> Grants:
    """What these controllers need. `namespace` limits all namespaced kinds to one; `home` is where the lease is."""
    made = Grants()
    for controller in controllers:
        _add_controller(made, controller, namespace)
    for webhook in webhooks:
        for read in webhook.read_rows:
            _add_read(made, read, namespace)
        if webhook.reviews_access:
            add_permissions(made, access_review.PERMISSIONS, namespace)
    if home:
        made.add(home, Lease.group, Lease.plural, ("get", "create", "update"))
    made.add("", CustomResourceDefinition.group, CustomResourceDefinition.plural, READ)
    made.add(namespace or "", Event.group, Event.plural, ("create", "get", "patch"))
    return made


def _add_controller(made: Grants, controller: Controller, limit: str | None) -> None:
    for face in controller.faces:
        for namespace in controller.namespaces or (None,):
            _add_resource(made, face, namespace, limit)
    for owns in controller.owns:
        place = _place(owns.kind, owns.namespace, limit)
        made.add(place, owns.kind.group, owns.kind.plural, owns.verbs or (*READ, *WRITE))
    for watch in controller.watches:
        _add_read(made, watch, limit)
    add_permissions(made, controller.permissions, limit)
    if controller.wraps is not None:
        add_permissions(made, controller.wraps.permissions, limit)


def _add_read(made: Grants, watch: Watch, limit: str | None) -> None:
    names = (watch.name,) if watch.name else ()
    made.add(
        _place(watch.kind, watch.namespace, limit), watch.kind.group, watch.kind.plural, watch.verbs or READ, names
    )


def _add_resource(made: Grants, controller: Controller, namespace: str | None, limit: str | None) -> None:
    kind, definition = controller.kind, controller.for_ if isinstance(controller.for_, Definition) else None
    if kind is None:
        return
    place = _place(kind, namespace, limit)
    patches = bool(controller.finalizer) or definition is not None
    made.add(place, kind.group, kind.plural, (*READ, "patch") if patches else READ)
    # The engine writes the status of kinds that are ours; whoever writes that of another kind asks with a Permission.
    if definition is not None and definition.storage.status:
        made.add(place, kind.group, f"{kind.plural}/status", ("get", "patch"))
    # Owner references that block deletion need this where the API enforces it.
    if definition is not None or any("create" in (owns.verbs or WRITE) for owns in controller.owns):
        made.add(place, kind.group, f"{kind.plural}/finalizers", ("update",))


def add_permissions(made: Grants, permissions: Iterable[Permission], limit: str | None = None) -> None:
    for permission in permissions:
        place = permission.namespace or ("" if permission.everywhere else limit) or ""
        for group in permission.groups:
            for resource in permission.resources:
                made.add(place, group, resource, permission.verbs, permission.names)


def _place(kind: Kind, namespace: str | None, limit: str | None) -> str:
    return (namespace or limit or "") if kind.namespaced else ""


def _sorted(verbs: Iterable[str]) -> tuple[str, ...]:
    rank = {verb: position for position, verb in enumerate(_ORDER)}
    return tuple(sorted(set(verbs), key=lambda verb: (rank.get(verb, len(rank)), verb)))


def manifests(made: Grants, name: str, account: str, account_namespace: str) -> list[Object]:
    """The roles and their bindings to a service account."""
    api = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": account_namespace}
    objects: list[Object] = []
    for place in made.places:
        role, binding = ("Role", "RoleBinding") if place else ("ClusterRole", "ClusterRoleBinding")
        metadata: Object = {"name": name} | ({"namespace": place} if place else {})
        objects.append({"apiVersion": f"{api}/v1", "kind": role, "metadata": metadata, "rules": made.rules(place)})
        reference = {"apiGroup": api, "kind": role, "name": name}
        objects.append(
            {
                "apiVersion": f"{api}/v1",
                "kind": binding,
                "metadata": dict(metadata),
                "roleRef": reference,
                "subjects": [subject],
            }
        )
    return objects
