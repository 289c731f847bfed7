"""CodeFlare: secured access to RayClusters, and AppWrappers."""
