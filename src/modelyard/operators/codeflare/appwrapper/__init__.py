"""AppWrapper: any Kubernetes objects as one unit that is queued, started, watched, retried and removed together."""
