"""Makes the ConfigMap with the settings where it does not exist yet, so that an admin finds what there is to change."""

from __future__ import annotations

import yaml

from modelyard.kube import builtin
from modelyard.kube.kinds import Key
from modelyard.operators.codeflare.appwrapper.config import DEFAULT_SECTION
from modelyard.operators.codeflare.config import CONFIG_KEY, DEFAULTS, Settings
from modelyard.operators.parts import build
from modelyard.operators.parts.mappings import fixed
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Policy
from modelyard.runtime.declaring.world import World


def configuration_controller(settings: Settings) -> Controller:
    """Works on one key: the ConfigMap's."""
    place = Key(settings.namespace, settings.config_map)
    controller = Controller(
        "codeflare-configuration",
        Fixed((place,)),
        owns=[Owns(builtin.ConfigMap, namespace=settings.namespace)],
        watches=[Watch(builtin.Namespace, to=fixed(place), name=settings.namespace)],
    )

    @controller.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        if world.get(builtin.Namespace, "", key.namespace) is None or world.get(builtin.ConfigMap, *key) is not None:
            return Desired(prune=False)
        sections = {**DEFAULTS, "appwrapper": {**DEFAULT_SECTION, "enabled": settings.appwrappers}}
        document = yaml.safe_dump(sections, sort_keys=False)
        made = build.config_map(key.name, key.namespace, {CONFIG_KEY: document})
        return Desired([Child(made, policy=Policy.ONCE)])

    return controller
