"""Custom resource definitions: their own rules, the rules they make, and their life from creation to the last object's end."""

from modelyard.local.apiserver.crds.definitions import CLEANUP, DefinitionStrategy
from modelyard.local.apiserver.crds.lifecycle import CustomResources, version_rank
from modelyard.local.apiserver.crds.strategy import CustomStrategy

__all__ = ["CLEANUP", "CustomResources", "CustomStrategy", "DefinitionStrategy", "version_rank"]
