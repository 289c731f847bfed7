"""Programs of ours that stand in for container images; run as `python -m`, never imported by the cluster itself."""
