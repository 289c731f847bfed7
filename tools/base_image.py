"""Asks the registry which digest the tag of the Dockerfile's base image has now, and writes it into the Dockerfile.

`make base-image` calls it. It needs no container engine: the registry's HTTP API answers, for anyone, with a token if it asks for one.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parents[1] / "Dockerfile"
_PINNED = re.compile(r"^ARG PYTHON=(?P<name>[^\s@]+)@(?P<digest>sha256:[0-9a-f]{64})$", re.MULTILINE)
_INDEXES = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class Unresolved(Exception):
    """The registry did not say a digest."""


@dataclass(frozen=True)
class Image:
    registry: str
    repository: str
    tag: str

    @classmethod
    def parse(cls, name: str) -> Image:
        """As container engines read it: without a host it is Docker Hub's, and without a folder its library's."""
        place, colon, tag = name.rpartition(":")
        if not colon or "/" in tag:
            place, tag = name, "latest"
        host, slash, rest = place.partition("/")
        if slash and ("." in host or ":" in host):
            return cls(host, rest, tag)
        return cls("registry-1.docker.io", place if slash else f"library/{place}", tag)

    @property
    def manifest(self) -> str:
        scheme = "http" if self.registry.startswith(("127.0.0.1:", "localhost:")) else "https"
        return f"{scheme}://{self.registry}/v2/{self.repository}/manifests/{self.tag}"


def digest_of(image: Image) -> str:
    """Of the index of all architectures, as the registry states it."""
    headers = {"Accept": _INDEXES}
    try:
        try:
            answer = _head(image.manifest, headers)
        except urllib.error.HTTPError as refused:
            if refused.code != 401:
                raise
            token = _token(refused.headers.get("WWW-Authenticate", ""))
            answer = _head(image.manifest, headers | {"Authorization": f"Bearer {token}"})
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise Unresolved(f"{image.manifest}: {error}") from None
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", answer):
        raise Unresolved(f"{image.manifest} names no digest")
    return answer


def _head(url: str, headers: dict[str, str]) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="HEAD"), timeout=30) as answer:
        return str(answer.headers.get("Docker-Content-Digest", ""))


def _token(challenge: str) -> str:
    said = dict(_CHALLENGE.findall(challenge))
    if "realm" not in said:
        raise Unresolved("the registry wants a login that it does not describe")
    query = urllib.parse.urlencode({key: said[key] for key in ("service", "scope") if key in said})
    with urllib.request.urlopen(f"{said['realm']}?{query}", timeout=30) as answer:
        found = json.load(answer)
    return str(found.get("token") or found.get("access_token") or "")


def renewed(text: str) -> tuple[str, str]:
    """The Dockerfile with the digest of today, and the image's full name."""
    match = _PINNED.search(text)
    if match is None:
        raise Unresolved("the Dockerfile has no line `ARG PYTHON=NAME:TAG@sha256:...`")
    full = f"{match['name']}@{digest_of(Image.parse(match['name']))}"
    return text[: match.start()] + f"ARG PYTHON={full}" + text[match.end() :], full


def main(file: Path = DOCKERFILE) -> int:
    before = file.read_text()
    try:
        after, full = renewed(before)
    except Unresolved as problem:
        print(f"base-image: {problem}; the Dockerfile is unchanged", file=sys.stderr)
        return 1
    file.write_text(after)
    print(f"{full} ({'unchanged' if after == before else 'new: commit the Dockerfile'})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
