from __future__ import annotations

from pathlib import Path

from modelyard.kube.kinds import Object
from modelyard.local.network.hosts import hosts_text, pod_names, service_names, write_hosts


def service(name: str, address: str, namespace: str = "demo", **spec: object) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": address, **spec}}


def endpoints(name: str, *hosts: tuple[str, str, bool]) -> Object:
    return {
        "metadata": {"name": f"{name}-1", "namespace": "demo", "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": [a], "hostname": h, "conditions": {"ready": r}} for a, h, r in hosts],
    }


def names(found: list[tuple[str, list[str]]]) -> dict[str, set[str]]:
    by_name: dict[str, set[str]] = {}
    for address, spelled in found:
        for name in spelled:
            by_name.setdefault(name, set()).add(address)
    return by_name


def test_services_have_their_long_names_everywhere_and_the_short_one_at_home() -> None:
    services = [service("db", "127.70.0.2"), service("db", "127.70.0.3", "other")]
    found = names(service_names("demo", services, []))
    assert found["db"] == {"127.70.0.2"}
    assert found["db.other.svc.cluster.local"] == found["db.other.svc"] == found["db.other"] == {"127.70.0.3"}
    assert found["db.demo.svc"] == {"127.70.0.2"}


def test_a_headless_service_names_its_ready_pods() -> None:
    slices = [
        endpoints(
            "web", ("127.70.128.1", "web-0", True), ("127.70.128.2", "web-1", True), ("127.70.128.3", "web-2", False)
        )
    ]
    found = names(service_names("demo", [service("web", "None")], slices))
    assert found["web.demo.svc.cluster.local"] == {"127.70.128.1", "127.70.128.2"}
    assert found["web-1.web.demo.svc.cluster.local"] == found["web-1.web"] == {"127.70.128.2"}
    assert "web-2.web" not in found


def test_a_headless_service_may_publish_pods_that_are_not_ready() -> None:
    slices = [endpoints("web", ("127.70.128.3", "web-2", False))]
    found = names(service_names("demo", [service("web", "None", publishNotReadyAddresses=True)], slices))
    assert found["web-2.web"] == {"127.70.128.3"}


def test_a_pod_knows_itself_its_subdomain_and_its_aliases() -> None:
    spec = {
        "hostname": "web-0",
        "subdomain": "web",
        "hostAliases": [{"ip": "127.9.9.9", "hostnames": ["old.example.com"]}],
    }
    pod = {"metadata": {"name": "web-0", "namespace": "demo"}, "spec": spec}
    found = names(pod_names(pod, "127.70.128.1"))
    assert found["localhost"] == found["web-0"] == found["web-0.web.demo.svc.cluster.local"] == {"127.70.128.1"}
    assert found["old.example.com"] == {"127.9.9.9"}


def test_a_hosts_file_is_changed_in_place(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    write_hosts(path, hosts_text([("127.0.0.2", ["a", "b"])]))
    inode = path.stat().st_ino
    write_hosts(path, "short\n")
    assert path.read_text() == "short\n"
    assert path.stat().st_ino == inode
