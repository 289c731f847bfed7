from __future__ import annotations

import re
import ssl
import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest

from modelyard.local.images import Built, Invocation, NoRecipe, Recipe, Registry, recipes
from modelyard.local.images.recipe import repository, tag
from modelyard.local.images.registry import BadRecipe
from modelyard.pins import pins

REGISTRY = Registry.installed()


@pytest.mark.parametrize(
    ("image", "recipe"),
    [
        ("quay.io/opendatahub/mlflow:odh-stable", "mlflow"),
        ("registry.example:5000/team/mlflow@sha256:abc", "mlflow"),
        ("postgres:13", "postgres"),
        ("registry.redhat.io/rhel9/postgresql-16:latest", "postgres"),
        ("minio/minio", "s3"),
        ("chrislusf/seaweedfs:4.07", "s3"),
        ("quay.io/openshift/origin-kube-rbac-proxy:4.19", "kube-rbac-proxy"),
        ("modelyard/http-echo:1", "http-echo"),
        ("hashicorp/http-echo", "http-echo"),
        ("python:3.12-slim", "python"),
        ("docker.io/library/python:3.11-alpine", "python"),
        ("busybox:1.36", "shell"),
        ("docker.io/library/alpine", "shell"),
        ("debian:12-slim", "shell"),
        ("rayproject/ray:2.60.0-py311", "ray"),
        ("quay.io/modh/ray@sha256:abc", "ray"),
        ("rayproject/ray-ml:latest", "ray"),
    ],
)
def test_images_find_their_recipe(image: str, recipe: str) -> None:
    assert REGISTRY.find(image).name == recipe


@pytest.mark.parametrize("image", ["nginx", "quay.io/me/notmlflow:1", "mlflowish", "postgresx"])
def test_an_image_without_a_recipe_says_how_to_add_one(image: str) -> None:
    with pytest.raises(NoRecipe, match=r"modelyard\.images"):
        REGISTRY.find(image)


def test_every_recipe_of_ours_is_found() -> None:
    folder = Path(recipes.__file__).parent
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    ours = {import_module(f"{recipes.__name__}.{module}").recipe.name for module in modules}
    assert ours <= {recipe.name for recipe in Registry.installed()}


@pytest.mark.parametrize(
    ("image", "name", "label"),
    [
        ("a/b:1", "a/b", "1"),
        ("host:5000/a", "host:5000/a", "latest"),
        ("a@sha256:1", "a", "latest"),
        ("h:1/a:2@sha256:3", "h:1/a", "2"),
    ],
)
def test_names_and_tags_of_images(image: str, name: str, label: str) -> None:
    assert (repository(image), tag(image)) == (name, label)


def test_users_recipes_come_first_and_a_wrong_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Recipe("mine", "own mlflow", ("mlflow",), "1")

    class Entry:
        name, dist = "mine", None

        def __init__(self, value: object) -> None:
            self._value = value

        def load(self) -> object:
            return self._value

    monkeypatch.setattr(metadata, "entry_points", lambda group: [Entry([own])])
    assert Registry.installed().find("quay.io/opendatahub/mlflow:1") is own
    monkeypatch.setattr(metadata, "entry_points", lambda group: [Entry("text")])
    with pytest.raises(BadRecipe, match="'mine'"):
        Registry.installed()


def test_locks_are_hashed_and_name_no_host() -> None:
    for recipe in REGISTRY:
        if recipe.lock is not None:
            text = recipe.lock.read_text()
            assert not re.search(r"https?://|--index|--find-links| @ ", text), recipe.name
            requirements = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
            assert all("==" in line for line in requirements), recipe.name
            assert text.count("--hash=sha256:") >= len(requirements)


def test_the_pins_that_operators_share_are_what_the_locks_hold() -> None:
    assert (pins()["mlflow"].cluster, pins()["mlflow"].local) == ("3.14.0", "3.17.2")
    lock = REGISTRY.find("mlflow").lock
    assert lock is not None
    assert f"\nmlflow=={pins()['mlflow'].local} " in lock.read_text()
    lock = REGISTRY.find("rayproject/ray").lock
    assert lock is not None
    assert f"\nray=={pins()['ray'].local} " in lock.read_text()


def start(image: str, *argv: str, **env: str) -> Invocation:
    recipe = REGISTRY.find(image)
    built = Built(recipe, Path("/images/x"), "sha256:0")
    return recipe.translate(Invocation(argv or recipe.command, {"PATH": "/usr/bin", **env}, "127.1.1.1", built))


def test_mlflow_keeps_the_operators_arguments() -> None:
    found = start("mlflow", "mlflow", "server", "--allowed-hosts", "*")
    assert found.argv == ("mlflow", "server", "--allowed-hosts", "*")
    assert found.env["PATH"] == "/images/x/bin:/usr/bin"
    assert found.env["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"


def test_mlflow_without_allowed_hosts_admits_the_clusters_names() -> None:
    assert "127.*:*" in start("mlflow", "mlflow", "server").argv[-1]


def test_the_migration_job_finds_its_interpreter_and_its_version() -> None:
    found = start("mlflow", "/bin/sh", "-ec", 'exec python3.12 -c "$X"', SUPPORTED_MLFLOW_VERSION="3.14.0")
    assert found.argv[2] == 'exec python3 -c "$X"'
    assert found.env["SUPPORTED_MLFLOW_VERSION"] == "3.17.2"
    other = start("mlflow", "/bin/sh", SUPPORTED_MLFLOW_VERSION="3.10.1")
    assert other.env["SUPPORTED_MLFLOW_VERSION"] == "3.10.1"


@pytest.mark.parametrize("asked", ["PROFILE=SYSTEM", "PROFILE=SYSTEM:!AES128", "ECDHE+AESGCM"])
def test_mlflow_gets_ciphers_that_any_openssl_knows(asked: str) -> None:
    found = start("mlflow", "mlflow", "server", UVICORN_SSL_CIPHERS=asked).env["UVICORN_SSL_CIPHERS"]
    ssl.create_default_context().set_ciphers(found)
    assert found == asked.replace("PROFILE=SYSTEM", "DEFAULT")


@pytest.mark.parametrize("argv", [(), ("postgres",), ("docker-entrypoint.sh", "postgres"), ("run-postgresql",)])
def test_postgres_starts_its_server_at_the_pods_address(argv: tuple[str, ...]) -> None:
    found = start("postgres", *argv)
    assert found.argv[2].endswith("programs/postgres.py")
    assert found.argv[3:] == ("--host", "127.1.1.1")


RAY_FLAGS = "--node-ip-address=127.1.1.1 --disable-usage-stats"


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        ("ulimit -n 9; ray start --head --block", f"ulimit -n 9; ray start {RAY_FLAGS} --object-store-memory=536870912 --head --block"),
        (
            "pip install x && ray start --memory=2147483648",
            f"pip install x && ray start {RAY_FLAGS} --object-store-memory=644245094 --memory=2147483648",
        ),
        (
            "ray start --node-ip-address=127.1.1.1 --object-store-memory=80000000",
            "ray start --disable-usage-stats --node-ip-address=127.1.1.1 --object-store-memory=80000000",
        ),
        ("ray kuberay-autoscaler --cluster-name a", "ray kuberay-autoscaler --gcs-address=127.1.1.1:6379 --cluster-name a"),
        ("ray health-check --address a:6379", "ray health-check --address a:6379"),
        ("echo x-ray started", "echo x-ray started"),
    ],
)  # fmt: skip
def test_ray_is_told_the_pods_address_and_a_laptops_share_of_memory(asked: str, runs: str) -> None:
    """Ray takes the machine's own address and a third of its memory, unless it is told."""
    made = start("rayproject/ray", "/bin/bash", "-c", "--", asked, KUBERAY_GEN_RAY_START_CMD=asked)
    assert made.argv[3] == runs
    assert made.env["KUBERAY_GEN_RAY_START_CMD"] == runs
    assert made.env["PATH"].startswith("/images/x/bin:")


def test_ray_by_itself_is_told_too() -> None:
    made = start("rayproject/ray", "ray", "start", "--head", "--labels", "a b")
    assert made.argv == (
        "ray",
        "start",
        *RAY_FLAGS.split(),
        "--object-store-memory=536870912",
        "--head",
        "--labels",
        "a b",
    )


def test_nothing_in_a_pod_ends_the_rays_of_other_pods() -> None:
    """`ray stop` ends every Ray that it sees."""
    hook = ["/bin/sh", "-c", "ray stop"]
    assert REGISTRY.find("rayproject/ray").located(hook) == ["/bin/sh", "-c", "true"]


def test_other_programs_of_an_image_run_as_they_are() -> None:
    assert start("postgres", "pg_dump", "-a").argv == ("pg_dump", "-a")
    assert start("postgres", "postgres", "-c", "ssl=on").argv[-2:] == ("-c", "ssl=on")
    assert start("minio", "sh", "-c", "x").argv == ("sh", "-c", "x")


@pytest.mark.parametrize("program", ["python", "python3", "python3.12", "/usr/local/bin/python"])
def test_every_name_of_the_interpreter_is_the_one_that_is_here(program: str) -> None:
    found = start("python:3.12", program, "-m", "http.server")
    assert found.argv == ("python3", "-m", "http.server")
    assert found.env["PATH"] == "/images/x/bin:/usr/bin"
    assert start("python:3.12", "sh", "-c", "python app.py").argv == ("sh", "-c", "python app.py")


def test_applets_of_busybox_are_the_programs_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert start("busybox", "busybox", "sleep", "60").argv == ("sleep", "60")
    assert start("busybox", "sh", "-c", "date").argv == ("sh", "-c", "date")


@pytest.mark.parametrize("image", ["python", "busybox"])
def test_images_of_the_machines_programs_show_nothing_of_modelyard(image: str) -> None:
    built = Built(REGISTRY.find(image), Path("/images/x"), "sha256:0")
    assert built.python_path() == []
    assert Path(sys.prefix) not in built.shown()


def test_an_http_echo_understands_the_options_of_the_well_known_image() -> None:
    argv = start("hashicorp/http-echo:1.0", "-text=hi").argv
    assert argv[-3:] == ("--port", "5678", "-text=hi")
    assert "--port" not in start("modelyard/http-echo", "--text", "hi").argv


@pytest.mark.parametrize(
    ("version", "image", "said"),
    [
        ("3.17.2", "mlflow:3.17", ""),
        ("3.17.2", "mlflow:v3", ""),
        ("3.17.2", "mlflow", ""),
        ("3.17.2", "mlflow:odh-stable", ""),
        ("3.17.2", "mlflow@sha256:11", ""),
        ("3.17.2", "mlflow:3.1", 'mlflow 3.17.2 runs in place of image "mlflow:3.1" (3.1 was asked for)'),
        ("3.17.2", "mlflow:3.14.0", 'mlflow 3.17.2 runs in place of image "mlflow:3.14.0" (3.14.0 was asked for)'),
    ],
)
def test_a_tag_that_is_not_honored_is_said(version: str, image: str, said: str) -> None:
    assert Recipe("mlflow", "", ("mlflow",), version).substitution(image) == said


def test_a_stand_in_is_always_said_and_our_own_image_never() -> None:
    assert REGISTRY.find("python").substitution("python:3.1").endswith('image "python:3.1" (3.1 was asked for)')
    assert "programs of this machine" in REGISTRY.find("busybox").substitution("busybox")
    assert REGISTRY.find("http-echo").substitution("modelyard/http-echo:1") == ""
