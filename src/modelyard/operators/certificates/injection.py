"""Puts the CA of our own into ConfigMaps that ask for it with OpenShift's annotation, so that the same YAML works here."""

from __future__ import annotations

from collections.abc import Iterable, Set

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import annotations_of, key_of, name_of, namespace_of
from modelyard.kube.openshift import INJECT_CA, MARKS
from modelyard.kube.secrets import value_of
from modelyard.operators.certificates.config import CertificateSettings, Issuer
from modelyard.operators.certificates.controller import CA, CA_SECRET, issuer_of, without_ca
from modelyard.operators.parts import build
from modelyard.runtime.declaring.controller import Controller, MapFn, Owns, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Hold, Ownership
from modelyard.runtime.declaring.world import World

KEY = "service-ca.crt"
"""Where OpenShift puts it, and we."""


def injection_controller(settings: CertificateSettings, namespaces: Set[str]) -> Controller:
    """One key of someone's ConfigMap is ours, for as long as it asks; the others are never touched."""
    places = sorted(namespaces)
    controller = Controller(
        "serving-ca-injection",
        builtin.ConfigMap,
        namespaces=places,
        owns=[Owns(builtin.ConfigMap, namespace=place, verbs=("get", "list", "watch", "patch")) for place in places],
        watches=[
            Watch(builtin.Secret, to=_users(places), namespace=settings.namespace, labels=CA),
        ],
        asks=MARKS,
    )

    @controller.reconcile
    def reconcile(asking: Object, world: World) -> Desired | Hold:
        # Another issuer's CA is not known here; on OpenShift its own service does the same.
        if not asks(asking) or issuer_of(settings, world) is not Issuer.OWN:
            return Desired()
        # While the CA is being replaced, this is the new one and the old.
        bundle = value_of(world.get(builtin.Secret, settings.namespace, CA_SECRET), "ca.crt")
        if not bundle:
            return without_ca(settings)
        share = build.obj(builtin.ConfigMap, name_of(asking), namespace_of(asking), data={KEY: bundle.decode()})
        return Desired([Child(share, ownership=Ownership.CONTRIBUTED)])

    return controller


def asks(config_map: Object) -> bool:
    return annotations_of(config_map).get(INJECT_CA) == "true"


def _users(places: Iterable[str]) -> MapFn:
    """The CA wakes all ConfigMaps that hold it."""

    def users(secret: Object, reader: Reader) -> Iterable[Key]:
        found = [config_map for place in places for config_map in reader.list(builtin.ConfigMap, place)]
        return [key_of(config_map) for config_map in found if asks(config_map)]

    return users
