"""A container that wants out: to the keeper, to the host's files, to the launcher in front of it, to root's power."""

from __future__ import annotations

import json

import pytest

from tests.attack.pods.conftest import Ground

_KNOCK = """
import json, os, socket, struct
names = [line.split()[7] for line in open("/proc/net/unix").read().splitlines()[1:] if len(line.split()) > 7]
request = json.dumps({"op": "start", "id": "own", "mode": "plain", "argv": ["/usr/bin/touch", PROOF], "env": {}, "cwd": "/",
                      "log": PROOF + ".log", "uid": UID, "gid": UID, "seq": 1}).encode()
for name in names:
    if "keeper" not in name:
        continue
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(2)
    try:
        sock.connect("\\0" + name[1:] if name.startswith("@") else name)
        sock.sendall(struct.pack("!I", len(request)) + request)
        print("answered", sock.recv(1000))
    except OSError as error:
        print(error)
"""


def test_no_container_reaches_the_keeper(ground: Ground) -> None:
    proof = ground.folder("host") / "proof"
    script = _KNOCK.replace("PROOF", repr(str(proof))).replace("UID", str(ground.uid))
    played = ground.play(play="run", script=script)
    assert "answered b'" not in played["output"]
    assert not proof.exists()
    assert played["line"]


def test_nobody_outside_has_the_environment_of_a_container(ground: Ground) -> None:
    env = {"LD_DEBUG_OUTPUT": "hostile-value", "SECRET": "hostile-value"}
    assert ground.play(play="environment", env=env, look_for="hostile-value") == {"outside": []}


def test_a_sub_path_that_changes_places_with_a_link_never_shows_the_host(ground: Ground) -> None:
    volume, host = ground.folder("volume"), ground.folder("host")
    (host / "secret").touch()
    (volume / "dir").mkdir()
    (volume / "link").symlink_to(host)
    seen = ground.play(
        play="swap", script="import os; print(os.listdir('/data'))", tries=15,
        one=str(volume / "dir"), other=str(volume / "link"),
        mounts=[{"source": str(volume), "target": "/data", "beneath": "dir"}],
    )["seen"]  # fmt: skip
    assert not [output for _, output in seen if "secret" in output]
    assert all(code == 0 or "leads out" in output or "bwrap: " in output for code, output in seen), seen


@pytest.mark.parametrize("link", ["", "/oldroot"])
def test_a_mount_point_below_a_link_makes_nothing_on_the_host(ground: Ground, link: str) -> None:
    volume, other, host = ground.folder("volume"), ground.folder("other"), ground.folder("host")
    (volume / "out").symlink_to(f"{link}{host}")
    mounts = [{"source": str(volume), "target": "/data"}, {"source": str(other), "target": "/data/out/made"}]
    ground.play(play="run", script="print(1)", mounts=mounts, message_path="/data/out/message")
    assert list(host.iterdir()) == []


def test_a_mount_point_with_dots_stays_inside(ground: Ground) -> None:
    other, host = ground.folder("other"), ground.folder("host")
    up = "/.." * 12
    mounts = [{"source": str(other), "target": f"/data{up}{host}/made"}]
    played = ground.play(play="run", script="print(1)", mounts=mounts, message_path=f"{up}{host}/message")
    assert (played["code"], played["output"]) == (0, "1")
    assert list(host.iterdir()) == []


_POWER = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
tried = {}
def attempt(name, call):
    try:
        call()
        tried[name] = "done"
    except OSError as error:
        tried[name] = "refused"
def mount(kind, source, flags):
    if libc.mount(source, b"/mnt", kind, flags, None) < 0:
        raise OSError(ctypes.get_errno(), "mount")
attempt("mount proc", lambda: mount(b"proc", b"proc", 0))
attempt("mount tmpfs", lambda: mount(b"tmpfs", b"tmpfs", 0))
attempt("remount", lambda: libc.mount(None, b"/usr", None, 4096 | 32, None) < 0 and open("/proc/no"))
attempt("core pattern", lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)))
attempt("sysrq", lambda: os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY)))
attempt("kcore", lambda: (os.path.getsize("/proc/kcore") > 0 and open("/proc/kcore", "rb").read(1)) or open("/proc/no"))
attempt("device", lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(8, 0)))
for folder, _, names in os.walk("/sys/fs/cgroup"):
    attempt("cgroup", lambda: os.mkdir(folder + "/hostile"))
    if tried["cgroup"] == "done":
        break
attempt("sys", lambda: os.close(os.open("/sys/kernel/uevent_helper", os.O_WRONLY)))
print(json.dumps({"effective": int(status["CapEff"], 16), "bounding": int(status["CapBnd"], 16), "tried": tried}))
"""
_SAFE = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7, 8, 10, 18))


def test_root_inside_has_no_power_over_the_machine(ground: Ground) -> None:
    played = ground.play(play="run", script=_POWER, context={"capabilities": {"add": ["SYS_ADMIN", "NET_ADMIN"]}})
    assert played["code"] == 0, played["output"]
    found = json.loads(played["output"])
    assert {name for name, how in found["tried"].items() if how == "done"} == set()
    assert found["effective"] == (_SAFE if ground.is_root else 0)
    assert found["bounding"] & ~_SAFE == 0 or not ground.is_root


def test_dropped_capabilities_are_dropped(ground: Ground) -> None:
    played = ground.play(play="run", script=_POWER, context={"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}})
    assert json.loads(played["output"])["effective"] == (1 if ground.is_root else 0)


def test_shared_memory_has_an_end(ground: Ground) -> None:
    script = "f = open('/dev/shm/x', 'wb')\nfor _ in range(100): f.write(bytes(1 << 20)); f.flush()"
    played = ground.play(play="run", script=script)
    assert played["code"] != 0
    assert "No space left" in played["output"]


@pytest.mark.parametrize("how", ["abandoned", "the kubelet left"])
def test_a_command_that_nobody_waits_for_leaves_no_process(ground: Ground, how: str) -> None:
    mark = str(30000 + (ground.uid + hash(ground.name)) % 10000)
    assert ground.play(play="command", how=how, mark=mark) == {"left": 0}
