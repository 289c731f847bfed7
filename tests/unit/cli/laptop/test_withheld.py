"""What does not start on a laptop, and that a user is told so."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.cli.laptop.controllers import laptop_settings
from modelyard.cli.laptop.progress import Progress
from modelyard.cli.laptop.withheld import WITHHELD, what_is_off
from modelyard.local.laptop.layout import Layout, State
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.registry import BUILT, load


def test_the_catalog_is_off_on_a_laptop_until_a_user_asks_for_it() -> None:
    assert not Settings.from_environ(laptop_settings({})).catalog
    (sentence,) = what_is_off(["mlflow", "model-registry"], {})
    assert "the model catalog is off" in sentence
    assert "ENABLE_MODEL_CATALOG=true" in sentence
    asked = {"ENABLE_MODEL_CATALOG": "true"}
    assert Settings.from_environ({**laptop_settings(asked), **asked}).catalog
    assert what_is_off(["model-registry"], asked) == []


def test_nothing_is_said_of_an_operator_that_does_not_run() -> None:
    assert what_is_off(["mlflow"], {}) == []


def test_every_entry_names_a_setting_of_its_operator() -> None:
    for each in WITHHELD:
        assert each.operator in BUILT
        (operator,) = load([each.operator], {})
        assert each.setting in {setting.name for setting in operator.settings}


def test_up_says_in_one_line_what_is_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = State(1, 0.0, ["model-registry"], off=["the model catalog is off: no server"])
    Progress(quiet=True).done(state, Layout(tmp_path), {})
    assert "  off         the model catalog is off: no server\n" in capsys.readouterr().out
