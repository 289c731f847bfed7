"""What the platform operator tells others: kinds that it defines and that may or may not be there."""

from __future__ import annotations

from modelyard.kube.kinds import Kind

Auth = Kind("services.platform.opendatahub.io", "v1alpha1", "Auth", "auths", namespaced=False)
"""Who may use and who administers the platform."""
AUTH_NAME = "auth"
