"""Settings that are declared once: read from variables, and from a ConfigMap that may change while the process runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pytest

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.kinds import Object
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.rbac import grants
from modelyard.runtime.declaring.settings import (
    SettingError,
    SettingsMap,
    read_settings,
    setting,
    settings_of,
    whole_number,
)
from modelyard.runtime.declaring.world import World
from tests.unit.runtime.greetings import GREETING, Greeting, GreetingsPlane, config, running

pytestmark = pytest.mark.looptime


class Tone(Enum):
    LOUD = "loud"
    QUIET = "quiet"


@dataclass(frozen=True)
class Settings:
    text: str = setting("GREETING_TEXT", "Hello", "What is said", also=["OLD_TEXT"], key="text")
    tone: Tone = setting("TONE", Tone.QUIET, "How it is said", key="tone")
    times: int = setting("TIMES", 1, "How often", form=whole_number(at_least=1, at_most=9), key="times")
    shout: bool = setting("SHOUT", False, "In capitals")
    pause: float = setting("PAUSE", 0.5, "Seconds between")
    names: tuple[str, ...] = setting("NAMES", ("all",), "To whom")
    only_there: str = setting("", "none", "A setting that only the ConfigMap has", key="only-there")
    derived: str = "not a setting"


def test_without_variables_the_defaults_hold() -> None:
    assert read_settings(Settings, {}) == Settings()


def test_every_type_is_read() -> None:
    read = read_settings(
        Settings, {"GREETING_TEXT": "Hi", "TONE": "Loud", "TIMES": "3", "SHOUT": "yes", "PAUSE": "2", "NAMES": "a, b,"}
    )
    assert read == Settings("Hi", Tone.LOUD, 3, True, 2.0, ("a", "b"))


def test_an_empty_variable_is_not_set_and_an_older_name_counts_then() -> None:
    assert read_settings(Settings, {"GREETING_TEXT": " ", "OLD_TEXT": "Hey"}).text == "Hey"
    assert read_settings(Settings, {"GREETING_TEXT": "Hi", "OLD_TEXT": "Hey"}).text == "Hi"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TONE", "shrill", "setting TONE='shrill' cannot be used: use one of loud, quiet"),
        ("TIMES", "ten", "setting TIMES='ten' cannot be used: use a whole number, at least 1, at most 9"),
        ("TIMES", "10", "setting TIMES='10' cannot be used: use a whole number, at least 1, at most 9"),
        ("SHOUT", "perhaps", "setting SHOUT='perhaps' cannot be used: use true or false"),
        ("PAUSE", "long", "setting PAUSE='long' cannot be used: use a number"),
    ],
)
def test_a_bad_value_names_the_variable_the_value_and_what_is_allowed(variable: str, value: str, said: str) -> None:
    with pytest.raises(SettingError) as error:
        read_settings(Settings, {variable: value})
    assert str(error.value) == said


def test_the_documentation_follows_from_the_declarations() -> None:
    rows = [(s.name, s.without, s.description) for s in settings_of(Settings, SettingsMap(Settings(), "home", "words"))]
    while_running = "of ConfigMap home/words goes before it and may change while the plane runs"
    assert rows == [
        ("GREETING_TEXT", "OLD_TEXT, else Hello", f"What is said; key `text` {while_running}"),
        ("TONE", "quiet", f"How it is said; key `tone` {while_running}"),
        ("TIMES", "1", f"How often; key `times` {while_running}"),
        ("SHOUT", "false", "In capitals"),
        ("PAUSE", "0.5", "Seconds between"),
        ("NAMES", "all", "To whom"),
        (
            "only-there",
            "none",
            "A setting that only the ConfigMap has; key `only-there` of ConfigMap home/words; may change while the plane runs",
        ),
    ]


def greeter() -> Controller:
    live = SettingsMap(Settings(text="Hi"), "shop", "words")
    made = Controller("greetings", GREETING, owns=[ConfigMap], settings=live)

    @made.reconcile
    def reconcile(greeting: Greeting, world: World) -> Desired:
        now = live.current(world)
        return Desired([config(text=now.text, tone=now.tone.value)], status={"phase": "Done"})

    return made


def words(**data: str) -> Object:
    return config("words", **data)


async def said(ground: GreetingsPlane) -> Object:
    await ground.manager.idle()
    found: Object = (await ground.user.get(ConfigMap, "shop", "c"))["data"]
    return found


async def test_a_change_of_the_config_map_takes_effect_without_a_restart() -> None:
    async with running(greeter()) as ground:
        await ground.greet()
        assert await said(ground) == {"text": "Hi", "tone": "quiet"}
        await ground.user.create(ConfigMap, words(text="Good day", tone="loud"))
        assert await said(ground) == {"text": "Good day", "tone": "loud"}
        await ground.user.delete(ConfigMap, "shop", "words")
        assert await said(ground) == {"text": "Hi", "tone": "quiet"}


async def test_a_bad_value_in_the_config_map_holds_what_is_there_and_is_said() -> None:
    async with running(greeter()) as ground:
        await ground.greet()
        await ground.user.create(ConfigMap, words(tone="shrill"))
        assert await said(ground) == {"text": "Hi", "tone": "quiet"}
        ready = await ground.condition("Ready")
        assert (ready["status"], ready["reason"]) == ("False", "SettingInvalid")
        assert (
            ready["message"] == "setting tone of ConfigMap shop/words='shrill' cannot be used: use one of loud, quiet"
        )
        await ground.user.patch(ConfigMap, "shop", "words", {"data": {"tone": "loud"}})
        assert await said(ground) == {"text": "Hi", "tone": "loud"}


def test_the_role_reads_that_config_map_only() -> None:
    made = Controller("greetings", GREETING, settings=SettingsMap(Settings(), "shop", "words"))
    rules = [rule for rule in grants([made]).rules("shop") if rule["resources"] == ["configmaps"]]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in rules] == [(["words"], ["get", "list", "watch"])]
