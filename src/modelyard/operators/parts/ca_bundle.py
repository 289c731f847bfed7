"""Trusting more than the system's certificates: helper containers that join CA ConfigMaps into one bundle, and its variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelyard.kube.kinds import Object
from modelyard.operators.parts import build

SYSTEM_BUNDLE = "/etc/pki/tls/certs/ca-bundle.crt"
COMBINED_DIRECTORY = "/etc/pki/tls/certs/combined"
COMBINED_BUNDLE = f"{COMBINED_DIRECTORY}/ca-bundle.crt"
COMBINED_VOLUME = "combined-ca-bundle"
WATCH_INTERVAL = 30

_COMBINE = """\
set -eu
umask 0077
combine() {
  : > "$CA_BUNDLE_OUTPUT.tmp"
  sources=0
  for file in $CA_BUNDLE_FILE_PATHS; do
    if [ -f "$file" ]; then
      cat "$file" >> "$CA_BUNDLE_OUTPUT.tmp"
      echo >> "$CA_BUNDLE_OUTPUT.tmp"
      sources=$((sources + 1))
    fi
  done
  for directory in $CA_BUNDLE_MOUNT_PATHS; do
    for file in "$directory"/*.crt "$directory"/*.pem; do
      if [ -f "$file" ]; then
        cat "$file" >> "$CA_BUNDLE_OUTPUT.tmp"
        echo >> "$CA_BUNDLE_OUTPUT.tmp"
        sources=$((sources + 1))
      fi
    done
  done
  mv "$CA_BUNDLE_OUTPUT.tmp" "$CA_BUNDLE_OUTPUT"
  chmod 0644 "$CA_BUNDLE_OUTPUT"
  count=$(grep -c 'BEGIN CERTIFICATE' "$CA_BUNDLE_OUTPUT" || true)
  echo "combined $sources sources with $count certificates"
}
"""

COMBINE_SCRIPT = f"{_COMBINE}combine\n"

WATCH_SCRIPT = f"""\
{_COMBINE}digest() {{
  {{
    for file in $CA_BUNDLE_FILE_PATHS; do
      if [ -f "$file" ]; then cat "$file"; fi
    done
    for directory in $CA_BUNDLE_MOUNT_PATHS; do
      for file in "$directory"/*.crt "$directory"/*.pem; do
        if [ -f "$file" ]; then cat "$file"; fi
      done
    done
  }} | sha256sum
}}
seen=
while true; do
  now=$(digest)
  if [ "$now" != "$seen" ]; then
    combine
    seen=$now
  fi
  sleep "$CA_BUNDLE_WATCH_INTERVAL"
done
"""


@dataclass(frozen=True)
class Source:
    """A ConfigMap whose `*.crt` and `*.pem` keys are trusted, and where it is mounted.

    So is `service-ca.crt`, which is put into a ConfigMap that asks for the CA of serving certificates.
    """

    config_map: str
    path: str


def volumes(sources: Sequence[Source]) -> list[Object]:
    """One volume a source, then the one that the joined bundle is written to; nothing without sources."""
    if not sources:
        return []
    each = [
        build.config_map_volume(f"ca-bundle-{index}", source.config_map, optional=True)
        for index, source in enumerate(sources)
    ]
    return [*each, build.empty_dir(COMBINED_VOLUME)]


def mounts(sources: Sequence[Source]) -> list[Object]:
    """What a container needs to read the joined bundle."""
    return [build.mount(COMBINED_VOLUME, COMBINED_DIRECTORY, read_only=True)] if sources else []


def variables(sources: Sequence[Source]) -> list[Object]:
    """What makes Python, curl, AWS, Postgres and MySQL clients trust the joined bundle."""
    if not sources:
        return []
    return [
        *(
            build.env(name, COMBINED_BUNDLE)
            for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "PGSSLROOTCERT")
        ),
        build.env("PGSSLMODE", "verify-full"),
        build.env("MLFLOW_MYSQL_CA", COMBINED_BUNDLE),
        build.env("MLFLOW_S3_IGNORE_TLS", "false"),
    ]


def init_container(sources: Sequence[Source], base: Object) -> Object:
    """Joins the bundle before anything starts. `base` has image, pull policy and security context."""
    return {
        "name": "combine-ca-bundles",
        **_helper(sources, base, COMBINE_SCRIPT),
        "resources": build.resources({"cpu": "10m", "memory": "16Mi"}, {"cpu": "100m", "memory": "64Mi"}),
    }


def watcher(sources: Sequence[Source], base: Object) -> Object:
    """Joins the bundle again when a source changed."""
    container = {"name": "ca-bundle-watcher", **_helper(sources, base, WATCH_SCRIPT)}
    container["env"].append(build.env("CA_BUNDLE_WATCH_INTERVAL", str(WATCH_INTERVAL)))
    container["resources"] = build.resources({"cpu": "5m", "memory": "8Mi"}, {"cpu": "50m", "memory": "32Mi"})
    return container


def _helper(sources: Sequence[Source], base: Object, script: str) -> Object:
    mounted = [build.mount(f"ca-bundle-{index}", source.path, read_only=True) for index, source in enumerate(sources)]
    return {
        **base,
        "command": ["/bin/sh", "-c"],
        "args": [script],
        "env": [
            build.env("CA_BUNDLE_FILE_PATHS", SYSTEM_BUNDLE),
            build.env("CA_BUNDLE_MOUNT_PATHS", " ".join(source.path for source in sources)),
            build.env("CA_BUNDLE_OUTPUT", COMBINED_BUNDLE),
        ],
        "volumeMounts": [build.mount("tmp", "/tmp"), build.mount(COMBINED_VOLUME, COMBINED_DIRECTORY), *mounted],
    }
