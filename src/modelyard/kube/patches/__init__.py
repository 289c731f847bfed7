"""The three patch formats besides server-side apply: JSON patch, merge patch, strategic merge patch."""

from modelyard.kube.patches.errors import PatchError
from modelyard.kube.patches.json_patch import json_patch
from modelyard.kube.patches.merge_patch import merge_diff, merge_patch
from modelyard.kube.patches.strategic import strategic_patch

__all__ = ["PatchError", "json_patch", "merge_diff", "merge_patch", "strategic_patch"]
