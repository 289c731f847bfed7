"""What a container is shown, as a plan; running such plans is tested end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelyard.local.kubelet.processes.sandbox import Isolation, Mount, NotPossible, Sandbox, View, detect, mounts


def view(directory: Path, *volumes: Mount, **more: Any) -> View:
    root = directory / "root"
    given: dict[str, Any] = {"files": {"/etc/hosts": directory / "hosts"}, "shown": [Path("/opt/image")]} | more
    return View(root=root, mounts=volumes, hostname="web", uid=1000, gid=1000, **given)


def targets(items: list[dict[str, Any]]) -> list[str]:
    return [str(item["target"]) for item in items]


def test_a_container_sees_system_files_its_image_and_its_volumes_only(tmp_path: Path) -> None:
    items = mounts(view(tmp_path, Mount(tmp_path / "v", "/data")))
    bound = {str(item["target"]): item for item in items if item["type"] == "bind"}
    assert bound["/usr"]["readonly"]
    assert bound["/opt/image"]["readonly"]
    assert not bound["/data"]["readonly"]
    assert bound["/etc/hosts"]["source"] == str(tmp_path / "hosts")
    assert not [target for target in bound if target.startswith("/home")]


def test_volumes_come_after_what_they_cover_and_parents_before_children(tmp_path: Path) -> None:
    items = targets(
        mounts(view(tmp_path, Mount(tmp_path, "/data/inner"), Mount(tmp_path, "/data"), Mount(tmp_path, "/tmp")))
    )
    assert items.index("/tmp") < len(items) - 1 - items[::-1].index("/tmp") < items.index("/data") + len(items)
    assert items.index("/data") < items.index("/data/inner")


def test_a_volume_inside_a_system_directory_opens_that_directory_up(tmp_path: Path) -> None:
    items = mounts(view(tmp_path, Mount(tmp_path, "/etc/ssl/own", True)))
    kinds = {str(item["target"]): item["type"] for item in items}
    assert kinds["/etc/ssl"] == "dir"
    assert kinds["/etc/ssl/own"] == "bind"
    assert any(target.startswith("/etc/ssl/") and target != "/etc/ssl/own" for target in kinds)


def test_an_image_below_a_volume_is_put_on_top_of_it(tmp_path: Path) -> None:
    items = targets(mounts(view(tmp_path, Mount(tmp_path, "/opt"))))
    assert items.index("/opt/image") > len(items) - 1 - items[::-1].index("/opt")


def test_the_service_account_goes_through_the_link_of_var_run(tmp_path: Path) -> None:
    account = Mount(tmp_path, "/var/run/secrets/kubernetes.io/serviceaccount", True)
    assert "/run/secrets/kubernetes.io/serviceaccount" in targets(mounts(view(tmp_path, account)))


def test_bubblewrap_gets_the_same_plan(tmp_path: Path) -> None:
    sandbox = Sandbox(Isolation.BUBBLEWRAP, bubblewrap="/usr/bin/bwrap")
    prepared = sandbox.prepare(view(tmp_path, Mount(tmp_path, "/data", True), readonly_root=True), ["run"], {})
    words = " ".join(prepared.wrapper)
    assert f"--ro-bind {tmp_path} /data" in words
    assert "--remount-ro /" in words
    assert "--hostname web" in words
    assert "--unshare-pid" in words
    assert prepared.argv == ["run"]


PLAIN = Sandbox(Isolation.PATHS, "a test")


def test_without_namespaces_paths_and_names_are_rewritten(tmp_path: Path) -> None:
    volume = Mount(tmp_path / "v", "/data")
    prepared = PLAIN.prepare(
        view(tmp_path, volume, names={"db.demo.svc": "127.1.0.2"}),
        ["run", "--dir=/data/x"],
        {"URL": "http://db.demo.svc:80/data"},
    )
    assert prepared.argv == ["run", f"--dir={tmp_path}/v/x"]
    assert prepared.env["URL"] == f"http://127.1.0.2:80{tmp_path}/v" or prepared.env["URL"].startswith(
        "http://127.1.0.2:80"
    )
    assert prepared.env["TMPDIR"] == str(tmp_path / "root")


def test_without_namespaces_a_volume_that_nothing_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotPossible, match="install bubblewrap"):
        PLAIN.prepare(view(tmp_path, Mount(tmp_path, "/etc/app")), ["run"], {})


def test_without_namespaces_scratch_space_and_the_account_need_no_name(tmp_path: Path) -> None:
    account = Mount(tmp_path / "sa", "/var/run/secrets/kubernetes.io/serviceaccount", True)
    prepared = PLAIN.prepare(view(tmp_path, Mount(tmp_path, "/cache", scratch=True), account), ["run"], {})
    assert prepared.env["MODELYARD_SERVICE_ACCOUNT"] == str(tmp_path / "sa")


def test_what_is_not_isolated_is_said() -> None:
    assert "not isolated" in " ".join(PLAIN.describe())
    assert "NetworkPolicies are stored but not enforced" in " ".join(Sandbox(Isolation.NAMESPACES).describe())


def test_asking_for_an_isolation_that_is_missing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(NotPossible, match="bubblewrap is not installed"):
        detect(Isolation.BUBBLEWRAP)
