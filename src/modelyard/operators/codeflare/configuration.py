"""Makes the ConfigMap with the settings where it does not exist yet, so that an admin finds what there is to change."""

from __future__ import annotations

import yaml

from modelyard.kube import builtin
from modelyard.kube.kinds import Key
from modelyard.operators.codeflare.appwrapper.config import DEFAULT_SECTION
from modelyard.operators.codeflare.config import CONFIG_KEY, DEFAULTS, Settings
from modelyard.operators.parts import build
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns
from modelyard.runtime.declaring.desired import Child, Desired, Policy
from modelyard.runtime.declaring.world import World


def configuration_controller(settings: Settings) -> Controller:
    """Works on one key: the ConfigMap's."""
    controller = Controller(
        "codeflare-configuration",
        Fixed((Key(settings.namespace, settings.config_map),)),
        owns=[Owns(builtin.ConfigMap, namespace=settings.namespace)],
    )

    @controller.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        if world.get(builtin.ConfigMap, *key) is not None:
            return Desired(prune=False)
        sections = {**DEFAULTS, "appwrapper": {**DEFAULT_SECTION, "enabled": settings.appwrappers}}
        document = yaml.safe_dump(sections, sort_keys=False)
        made = build.config_map(key.name, key.namespace, {CONFIG_KEY: document})
        return Desired([Child(made, policy=Policy.ONCE)])

    return controller
