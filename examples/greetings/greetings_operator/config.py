"""The settings of the operator, each declared once: the parser and the page of settings are made from this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelyard.runtime.declaring.settings import SettingsMap, matching, read_settings, setting

NAME = "greetings-config"
"""The ConfigMap whose keys may change while the operator runs."""


@dataclass(frozen=True)
class Settings:
    namespace: str = setting("POD_NAMESPACE", "modelyard", f"Where the ConfigMap {NAME} is")
    image: str = setting(
        "GREETINGS_IMAGE",
        "docker.io/library/python:3.12",
        "The image that serves the text; it needs Python",
        key="image",
        form=matching(lambda text: " " not in text, "name one image, such as docker.io/library/python:3.12"),
    )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        return read_settings(cls, environ)

    @property
    def live(self) -> SettingsMap[Settings]:
        return SettingsMap(self, self.namespace, NAME)
