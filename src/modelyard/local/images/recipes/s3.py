"""An S3 store: rclone serves a directory as buckets, whatever S3 server the pod's image names."""

from __future__ import annotations

from modelyard.local.images.recipe import LOCKS, PROGRAMS, Invocation, Recipe, own_programs_first
from modelyard.pins import pins

_ENTRYPOINTS = {"minio", "weed", "rclone", "docker-entrypoint.sh", "entrypoint.sh"}


def _translate(invocation: Invocation) -> Invocation:
    argv = list(invocation.argv)
    invocation = own_programs_first(invocation)
    while argv and argv[0].rsplit("/", 1)[-1] in _ENTRYPOINTS:
        argv.pop(0)
    if not argv or argv[0] in ("server", "s3", "serve", "filer"):
        return invocation.with_argv(invocation.built.python, "-I", str(PROGRAMS / "s3.py"), invocation.pod_ip, *argv)
    return invocation


recipe = Recipe(
    name="s3",
    description=f"S3 store on a directory ({pins()['minio'].local}); for minio, seaweedfs and rclone images",
    patterns=("minio", "minio-*", "seaweedfs", "*/seaweedfs-*", "rclone", "s3-store"),
    version=pins()["minio"].local,
    runs=pins()["minio"].local,
    command=("server", "/data"),
    lock=LOCKS / "s3.txt",
    shown_paths=(PROGRAMS,),
    translate=_translate,
)
