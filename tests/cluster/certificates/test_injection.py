"""The CA in people's ConfigMaps and certificates for their Services, on an API server and with the generated role."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.openshift import INJECT_CA, SERVING_CERTIFICATE
from modelyard.kube.times import utc_now
from modelyard.operators.certificates.config import CertificateSettings
from modelyard.operators.certificates.controller import CA_SECRET, ca_controller, certificate_controller
from modelyard.operators.certificates.injection import KEY, injection_controller
from modelyard.operators.certificates.reach import Reach
from modelyard.runtime.tls.certificates import make_ca
from tests.cluster.conftest import Api
from tests.ground import ApiGround

ASKS = {INJECT_CA: "true"}


@pytest.fixture
async def ground(api: Api) -> AsyncIterator[ApiGround]:
    home = await api.namespace("ca")
    made = ApiGround(api.client, home, api.as_user)
    settings, reach = CertificateSettings(home), Reach(frozenset({home}), everywhere=False)
    await made.start(
        [
            ca_controller(settings),
            certificate_controller(settings, frozenset(), reach),
            injection_controller(settings, reach.namespaces),
        ]
    )
    yield made
    await made.stop()


async def bundle(ground: ApiGround) -> str:
    secret = await ground.until(builtin.Secret, CA_SECRET)
    return base64.b64decode(secret["data"]["ca.crt"]).decode()


async def test_the_ca_comes_with_the_annotation_and_goes_with_it(ground: ApiGround) -> None:
    await ground.create(builtin.ConfigMap, "trust", annotations=ASKS, data={"mine": "x"})
    trust = await ground.until(builtin.ConfigMap, "trust", lambda obj: KEY in obj["data"])
    assert trust["data"] == {KEY: await bundle(ground), "mine": "x"}
    await ground.edit(builtin.ConfigMap, "trust", lambda obj: obj["data"].update(mine="y"))
    assert (await ground.get(builtin.ConfigMap, "trust"))["data"] == {KEY: await bundle(ground), "mine": "y"}
    await ground.edit(builtin.ConfigMap, "trust", lambda obj: obj["metadata"].pop("annotations"))
    await ground.until(builtin.ConfigMap, "trust", lambda obj: obj["data"] == {"mine": "y"})


async def test_a_config_map_that_asks_later_gets_it_and_what_is_damaged_is_repaired(ground: ApiGround) -> None:
    await ground.create(builtin.ConfigMap, "trust")
    await ground.quiet()
    await ground.edit(builtin.ConfigMap, "trust", lambda obj: obj["metadata"].update(annotations=ASKS))
    await ground.until(builtin.ConfigMap, "trust", lambda obj: obj.get("data", {}).get(KEY))
    await ground.edit(builtin.ConfigMap, "trust", lambda obj: obj.pop("data"))
    expected = await bundle(ground)
    await ground.until(builtin.ConfigMap, "trust", lambda obj: obj.get("data") == {KEY: expected})


async def test_a_new_ca_joins_the_old_one_in_it(ground: ApiGround) -> None:
    await ground.create(builtin.ConfigMap, "trust", annotations=ASKS)
    await ground.until(builtin.ConfigMap, "trust", lambda obj: obj.get("data"))
    old = make_ca(utc_now() - timedelta(days=2500))
    encoded = base64.b64encode(old.certificate).decode()
    used_up = {"tls.crt": encoded, "tls.key": base64.b64encode(old.key).decode(), "ca.crt": encoded}
    await ground.edit(builtin.Secret, CA_SECRET, lambda obj: obj["data"].update(used_up))

    def both(obj: Object) -> bool:
        text = obj["data"][KEY]
        return text.count("BEGIN CERTIFICATE") == 2 and old.certificate.decode().strip() in text

    trust = await ground.until(builtin.ConfigMap, "trust", both)
    assert trust["data"][KEY] == await bundle(ground)


async def test_a_persons_service_gets_a_certificate_that_this_ca_vouches_for(ground: ApiGround) -> None:
    ports = [{"port": 9000}]
    await ground.create(builtin.Service, "store", annotations={SERVING_CERTIFICATE: "store-tls"}, spec={"ports": ports})
    secret = await ground.until(builtin.Secret, "store-tls")
    assert base64.b64decode(secret["data"]["ca.crt"]).decode() == await bundle(ground)
