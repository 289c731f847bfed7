"""The CA in people's ConfigMaps and certificates for their Services, on an API server and with the generated role."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.times import utc_now
from modelyard.operators.certificates.config import CertificateSettings
from modelyard.operators.certificates.controller import ANNOTATION, CA_SECRET, ca_controller, certificate_controller
from modelyard.operators.certificates.injection import INJECT, KEY, injection_controller
from modelyard.operators.certificates.reach import Reach
from modelyard.runtime.certificates import make_ca
from tests.cluster.conftest import Api
from tests.yard import ApiYard

ASKS = {INJECT: "true"}


@pytest.fixture
async def yard(api: Api) -> AsyncIterator[ApiYard]:
    home = await api.namespace("ca")
    made = ApiYard(api.client, home, api.as_user)
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


async def bundle(yard: ApiYard) -> str:
    secret = await yard.until(builtin.Secret, CA_SECRET)
    return base64.b64decode(secret["data"]["ca.crt"]).decode()


async def test_the_ca_comes_with_the_annotation_and_goes_with_it(yard: ApiYard) -> None:
    await yard.create(builtin.ConfigMap, "trust", annotations=ASKS, data={"mine": "x"})
    trust = await yard.until(builtin.ConfigMap, "trust", lambda obj: KEY in obj["data"])
    assert trust["data"] == {KEY: await bundle(yard), "mine": "x"}
    await yard.edit(builtin.ConfigMap, "trust", lambda obj: obj["data"].update(mine="y"))
    assert (await yard.get(builtin.ConfigMap, "trust"))["data"] == {KEY: await bundle(yard), "mine": "y"}
    await yard.edit(builtin.ConfigMap, "trust", lambda obj: obj["metadata"].pop("annotations"))
    await yard.until(builtin.ConfigMap, "trust", lambda obj: obj["data"] == {"mine": "y"})


async def test_a_config_map_that_asks_later_gets_it_and_what_is_damaged_is_repaired(yard: ApiYard) -> None:
    await yard.create(builtin.ConfigMap, "trust")
    await yard.quiet()
    await yard.edit(builtin.ConfigMap, "trust", lambda obj: obj["metadata"].update(annotations=ASKS))
    await yard.until(builtin.ConfigMap, "trust", lambda obj: obj.get("data", {}).get(KEY))
    await yard.edit(builtin.ConfigMap, "trust", lambda obj: obj.pop("data"))
    expected = await bundle(yard)
    await yard.until(builtin.ConfigMap, "trust", lambda obj: obj.get("data") == {KEY: expected})


async def test_a_new_ca_joins_the_old_one_in_it(yard: ApiYard) -> None:
    await yard.create(builtin.ConfigMap, "trust", annotations=ASKS)
    await yard.until(builtin.ConfigMap, "trust", lambda obj: obj.get("data"))
    old = make_ca(utc_now() - timedelta(days=2500))
    encoded = base64.b64encode(old.certificate).decode()
    used_up = {"tls.crt": encoded, "tls.key": base64.b64encode(old.key).decode(), "ca.crt": encoded}
    await yard.edit(builtin.Secret, CA_SECRET, lambda obj: obj["data"].update(used_up))

    def both(obj: Object) -> bool:
        text = obj["data"][KEY]
        return text.count("BEGIN CERTIFICATE") == 2 and old.certificate.decode().strip() in text

    trust = await yard.until(builtin.ConfigMap, "trust", both)
    assert trust["data"][KEY] == await bundle(yard)


async def test_a_persons_service_gets_a_certificate_that_this_ca_vouches_for(yard: ApiYard) -> None:
    ports = [{"port": 9000}]
    await yard.create(builtin.Service, "store", annotations={ANNOTATION: "store-tls"}, spec={"ports": ports})
    secret = await yard.until(builtin.Secret, "store-tls")
    assert base64.b64decode(secret["data"]["ca.crt"]).decode() == await bundle(yard)
