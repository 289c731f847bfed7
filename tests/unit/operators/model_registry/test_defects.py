"""Which test shows that a defect of upstream (section 12 of each specification) is not here: none may be without."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3]
UNIT, CLUSTER = "unit/operators/model_registry", "cluster/model_registry"
QUIRKS, WEBHOOKS = f"{UNIT}/test_quirks.py", f"{UNIT}/test_webhooks.py"
CATALOG, OBJECTS = f"{UNIT}/test_catalog_quirks.py", "cluster/model_catalog/scenarios/objects.py"
SWITCHES, SERVER_ONLY = "cluster/model_catalog/scenarios/switches.py", "cluster/model_catalog/test_defects.py"

Shown = tuple[str, ...]
REGISTRY_DEFECTS: dict[int, Shown] = {
    1: (f"{QUIRKS}::test_q1_the_delegator_binding_goes_with_the_registry",),
    2: (f"{QUIRKS}::test_q2_a_registry_that_is_already_going_gets_no_finalizer",),
    3: (f"{QUIRKS}::test_q3_without_the_gateway_api_a_registry_still_goes",),
    4: (
        f"{QUIRKS}::test_q4_a_registry_outside_the_namespace_can_still_go",
        f"{WEBHOOKS}::test_the_namespace_counts_only_when_a_registry_is_made",
        f"{WEBHOOKS}::test_a_registry_that_is_being_deleted_may_always_be_changed",
    ),
    5: (
        f"{QUIRKS}::test_q5_pins_and_resources_are_left_to_the_author",
        f"{WEBHOOKS}::test_only_the_operators_very_image_is_not_pinned",
    ),
    6: (
        f"{QUIRKS}::test_q6_names_of_a_generated_database_are_honoured",
        f"{QUIRKS}::test_q6_names_that_come_too_late_are_refused_with_a_word",
    ),
    7: (
        f"{QUIRKS}::test_q7_the_server_never_has_an_empty_host",
        f"{CLUSTER}/test_defects.py::test_q7_an_update_that_is_forbidden_deletes_nothing",
    ),
    8: (f"{QUIRKS}::test_q8_a_claim_that_was_grown_by_hand_stays_so",),
    9: (f"{QUIRKS}::test_q9_behind_a_proxy_only_its_port_is_reached",),
    10: (f"{QUIRKS}::test_q10_an_injected_sidecar_does_not_matter",),
    11: (f"{QUIRKS}::test_q11_conditions_of_what_is_gone_go_too",),
    12: (f"{QUIRKS}::test_q12_no_route_leads_to_a_port_that_is_not_there",),
    13: (f"{QUIRKS}::test_q13_no_host_is_named_that_does_not_exist",),
    14: (
        f"{QUIRKS}::test_q14_an_address_goes_before_a_host",
        f"{QUIRKS}::test_q14_fields_that_do_nothing_are_told",
        f"{WEBHOOKS}::test_fields_that_do_nothing_are_warned_about",
    ),
    15: (
        f"{QUIRKS}::test_q15_parts_of_an_address_are_escaped",
        f"{QUIRKS}::test_q15_a_password_that_no_url_can_hold_goes_another_way",
    ),
    16: (f"{UNIT}/test_conversion.py::test_a_registry_survives_the_old_version_and_back",),
    17: (f"{QUIRKS}::test_q17_a_spec_that_cannot_be_deployed_says_so",),
    18: (f"{QUIRKS}::test_q18_the_members_of_a_group_stay",),
    19: (f"{WEBHOOKS}::test_what_is_refused",),
    20: (
        f"{QUIRKS}::test_q20_what_is_switched_off_goes",
        f"{CLUSTER}/scenarios/databases.py::another_database_keeps_the_data_of_the_first",
    ),
    21: (f"{QUIRKS}::test_q21_only_what_belongs_to_registries_is_cached",),
    22: (
        f"{QUIRKS}::test_q22_every_container_may_run_restricted",
        f"{QUIRKS}::test_q22_certificates_can_be_read_where_no_platform_assigns_groups",
    ),
    23: (f"{QUIRKS}::test_q23_the_proxys_configuration_is_repaired",),
    24: (f"{QUIRKS}::test_q24_a_pod_of_the_database_is_not_the_servers",),
    25: (
        f"{UNIT}/test_storage.py::test_q25_a_migrator_that_failed_is_replaced",
        f"{UNIT}/test_storage.py::test_q25_a_migrator_that_hangs_is_not_waited_for",
        f"{UNIT}/test_storage.py::test_q25_the_clusters_migrator_goes_first",
    ),
    26: (
        f"{QUIRKS}::test_q26_the_service_gets_a_certificate_anywhere",
        "e2e/test_registry_servers.py::test_only_those_with_the_role_get_in",
    ),
    # Upstream's samples and pages are wrong. Ours are tried.
    27: ("cluster/test_examples.py::test_the_controllers_bring_the_example_to_its_end",),
    28: (f"{WEBHOOKS}::test_the_api_asks_in_its_present_version_and_fails_closed",),
    29: (f"{QUIRKS}::test_q29_a_password_is_nowhere_but_in_its_secret",),
    30: (f"{QUIRKS}::test_q30_pods_follow_what_they_read_at_start",),
    31: (f"{QUIRKS}::test_q31_ports_that_clash_are_told",),
    32: (f"{WEBHOOKS}::test_q32_a_pin_that_was_recorded_stays_whatever_status_the_client_sends",),
}
CATALOG_DEFECTS: dict[int, Shown] = {
    1: (f"{OBJECTS}::it_comes_to_rest",),
    2: (f"{CATALOG}::test_q2_credentials_that_someone_owns_stay_his",),
    3: (f"{SERVER_ONLY}::test_q3_a_platform_that_cannot_be_read_is_not_one_that_is_not_there",),
    4: (f"{OBJECTS}::the_database_is_on_its_volume",),
    5: (
        f"{CATALOG}::test_q5_the_service_gets_a_certificate_anywhere",
        f"{CATALOG}::test_q5_the_server_is_not_open_to_the_cluster",
    ),
    6: (f"{OBJECTS}::no_address_without_a_domain",),
    7: (f"{SWITCHES}::without_a_namespace_it_rests",),
    8: (f"{OBJECTS}::nothing_hangs_on_the_deployment",),
    9: (f"{SERVER_ONLY}::test_q9_an_update_that_is_forbidden_deletes_nothing",),
    10: (f"{CATALOG}::test_q10_no_secret_of_others_is_held",),
    11: (
        f"{CATALOG}::test_q11_what_counts_as_a_source",
        "cluster/model_catalog/scenarios/lists.py::sources_come_and_go",
    ),
    12: (
        f"{CATALOG}::test_q12_comments_and_newer_keys_stay",
        f"{CATALOG}::test_q12_an_entry_that_comes_later_goes_too",
    ),
    13: (f"{SWITCHES}::the_catalog_can_be_switched_off",),
    14: (
        f"{CATALOG}::test_q14_pods_follow_the_password",
        f"{CATALOG}::test_q14_the_password_is_made_before_anything_starts",
    ),
    15: (f"{CATALOG}::test_q15_its_health_can_be_read",),
    16: (f"{CATALOG}::test_q16_admins_may_edit_the_lists_and_nothing_else",),
    17: (f"{CATALOG}::test_q17_every_container_may_run_restricted",),
    18: (f"{CATALOG}::test_q18_an_auth_that_comes_and_goes_is_followed",),
    19: (f"{CATALOG}::test_q19_the_password_is_nowhere_but_in_its_secret",),
    20: (f"{WEBHOOKS}::test_what_is_refused",),
    21: (f"{SERVER_ONLY}::test_q21_after_the_platforms_end_the_catalog_goes_on_by_itself",),
}


@pytest.mark.parametrize(
    ("defects", "count"), [(REGISTRY_DEFECTS, 32), (CATALOG_DEFECTS, 21)], ids=["registry", "catalog"]
)
def test_every_defect_has_its_test(defects: dict[int, Shown], count: int) -> None:
    assert sorted(defects) == list(range(1, count + 1))
    missing = [place for shown in defects.values() for place in shown if not exists(place)]
    assert missing == []


def exists(place: str) -> bool:
    file, _, name = place.partition("::")
    path = TESTS / file
    return path.exists() and any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
        for node in ast.parse(path.read_text()).body
    )
