from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest

from modelyard.local.network.addresses import PodAddresses, RangeTaken, claim

NETWORK = ipaddress.IPv4Network("127.70.128.0/17")


def test_two_clusters_get_different_ranges_and_each_keeps_its_own(tmp_path: Path) -> None:
    first, second = claim(tmp_path / "a"), claim(tmp_path / "b")
    assert first.number != second.number
    assert not first.services.overlaps(first.pods)
    assert not first.pods.overlaps(second.pods)
    first.release()
    again = claim(tmp_path / "a")
    assert again.number == first.number
    again.release()
    second.release()


def test_a_range_that_another_cluster_holds_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    held = claim(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "network.json").write_text(json.dumps({"range": held.number}))
    with pytest.raises(RangeTaken, match="modelyard down"):
        claim(tmp_path / "b")
    held.release()


def test_pods_keep_their_address_and_new_ones_get_unused_ones() -> None:
    addresses = PodAddresses(NETWORK)
    assert addresses.hold("old", "127.70.128.9")
    given = [addresses.give(f"pod-{i}") for i in range(300)]
    assert len({*given, "127.70.128.9"}) == 301
    assert addresses.give("pod-0") == given[0]
    assert not any(address.endswith((".0", ".255")) for address in given)


def test_an_address_given_back_is_not_given_again_at_once() -> None:
    addresses = PodAddresses(NETWORK)
    first = addresses.give("a")
    addresses.take_back("a")
    assert addresses.give("b") != first


@pytest.mark.parametrize("address", ["10.0.0.1", "127.71.128.1", "nonsense", ""])
def test_foreign_addresses_are_not_held(address: str) -> None:
    assert not PodAddresses(NETWORK).hold("a", address)


def test_two_pods_cannot_hold_one_address() -> None:
    addresses = PodAddresses(NETWORK)
    assert addresses.hold("a", "127.70.128.5")
    assert not addresses.hold("b", "127.70.128.5")
