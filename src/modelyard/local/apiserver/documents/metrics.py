"""What the server says of itself to a monitor, under the names of kube-apiserver's metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from modelyard.local.apiserver.requests.journal import Counted, Journal
from modelyard.local.apiserver.requests.messages import Reply
from modelyard.local.apiserver.served.resources import Registry
from modelyard.local.apiserver.storage.store import Store

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_VERBS = {"create": "POST", "update": "PUT"}


def reply(journal: Journal, store: Store, registry: Registry) -> Reply:
    lines = [*_requests(journal.counts), *_objects(store, registry), *_under_way(journal.under_way)]
    return Reply(200, ("\n".join(lines) + "\n").encode(), CONTENT_TYPE)


def _requests(counts: Mapping[Counted, int]) -> Iterator[str]:
    yield from _head("apiserver_request_total", "counter", "Requests answered, by verb, resource, scope and HTTP code.")
    for (verb, group, version, resource, subresource, scope, status), count in sorted(counts.items()):
        labels = {
            "code": str(status), "component": "apiserver", "group": group, "resource": resource, "scope": scope,
            "subresource": subresource, "verb": _VERBS.get(verb, verb.upper()), "version": version,
        }  # fmt: skip
        yield _sample("apiserver_request_total", labels, count)


def _objects(store: Store, registry: Registry) -> Iterator[str]:
    yield from _head("apiserver_storage_objects", "gauge", "Objects stored, by resource.")
    for storage in sorted({resource.storage for resource in registry.all() if resource.handler is None}):
        yield _sample("apiserver_storage_objects", {"resource": storage}, store.count(storage))


def _under_way(count: int) -> Iterable[str]:
    name = "apiserver_current_inflight_requests"
    return (*_head(name, "gauge", "Requests that have no answer yet."), _sample(name, {}, count))


def _head(name: str, kind: str, described: str) -> tuple[str, str]:
    return f"# HELP {name} {described}", f"# TYPE {name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: int) -> str:
    # Names of resources need no escapes: the registry knows them.
    shown = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"
