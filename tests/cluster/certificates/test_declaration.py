"""A Service gets its certificate because its controller declares it: with the issuer as it runs beside that operator."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from cryptography import x509

from modelyard.kube import builtin
from modelyard.kube.kinds import Key
from modelyard.operators.certificates.operator import operator
from modelyard.operators.parts import build
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.world import World
from tests.cluster.conftest import Api
from tests.ground import ApiGround


def websites(namespace: str, *, asks: bool) -> Operator:
    """An operator of a user that makes one Service."""
    name = "asking" if asks else "silent"
    owns = [Owns(builtin.Service, namespace=namespace, serving_certificates=asks)]
    controller = Controller(f"websites-{name}", Fixed((Key(namespace, name),)), owns=owns)

    @controller.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        ports = [build.service_port(443)]
        web = build.service(
            key.name, key.namespace, selector={"app": "web"}, ports=ports, serving_certificate=f"{key.name}-tls"
        )
        return Desired([web])

    return Operator(f"websites-{name}", "Websites", "none", [controller])


async def test_the_declaration_alone_brings_the_certificate(api: Api) -> None:
    home = await api.namespace("declared")
    ground = ApiGround(api.client, home, api.as_user)
    operators = [websites(home, asks=True), websites(home, asks=False)]
    operators.append(operator({"POD_NAMESPACE": home}, operators))
    await ground.start([controller for each in operators for controller in each.controllers])
    secret = await ground.until(builtin.Secret, "asking-tls")
    await ground.until(builtin.Service, "silent")
    await ground.quiet()
    made = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert f"asking.{home}.svc" in names.get_values_for_type(x509.DNSName)
    assert made.not_valid_after_utc > datetime.now(UTC)
    assert await ground.find(builtin.Secret, "silent-tls") is None
    await ground.stop()
