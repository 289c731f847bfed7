"""Descriptions of what every object has, for `kubectl explain` and for editors."""

from __future__ import annotations

from modelyard.kube.kinds import Object

HEAD = {
    "apiVersion": "APIVersion defines the group and version of the schema that this object is written in.",
    "kind": "Kind says which kind of object this is, in CamelCase. It never changes.",
    "metadata": "Standard object's metadata: its name and namespace, its labels, and what the server keeps about it.",
}
METADATA = {
    "annotations": "Annotations hold what tools and people note about the object. They cannot be selected by.",
    "creationTimestamp": "CreationTimestamp is a timestamp of the server's: when the object was created. Read-only.",
    "deletionGracePeriodSeconds": "Seconds that the object has to end gracefully once it is deleted. Read-only.",
    "deletionTimestamp": "When the object is to be gone: set by the server when a deletion was asked for. Read-only.",
    "finalizers": "Who has to be done with the object before it is removed; each removes its own entry.",
    "generateName": "A prefix from which the server makes a unique name where `name` is not given.",
    "generation": "Counts the changes of what is desired. Read-only.",
    "labels": "Labels group objects: services, controllers and lists select by them.",
    "managedFields": "Which manager owns which fields, for server-side apply. Kept by the server.",
    "name": "The object's name, unique within its kind and namespace. It cannot be changed.",
    "namespace": "The namespace that the object is in; empty for kinds of the whole cluster. It cannot be changed.",
    "ownerReferences": "The objects that this one belongs to: when all of them are gone, it is removed too.",
    "resourceVersion": "The object's version, which no one but the server can read; an update with an old one is refused.",
    "selfLink": "No longer filled in.",
    "uid": "Unique over all objects that ever were. Read-only.",
}


def describe(properties: dict[str, Object], texts: dict[str, str]) -> None:
    """Adds descriptions to properties that have none."""
    for name, text in texts.items():
        if name in properties and not properties[name].get("description"):
            properties[name] = {"description": text} | properties[name]
