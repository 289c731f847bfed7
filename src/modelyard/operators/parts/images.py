"""When a container's image is pulled. Pure."""

from __future__ import annotations


def pull_policy(image: str) -> str:
    """What the API fills in for a new container. Operators say it, because the API fills it in only once: a container whose
    image changes later would keep the policy of its first image."""
    name, _, digest = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    is_moving = tag == "latest" if colon else not digest
    return "Always" if is_moving else "IfNotPresent"
