"""What the API knows of Pods and pod templates: defaults, validation, warnings, and what an update may change."""
