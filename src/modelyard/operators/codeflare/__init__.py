"""CodeFlare: secured access to RayClusters. Parts only: no controller is loaded yet, and the registry lists the system as not built."""
