"""What a RayCluster needs around it; the pods are made by KubeRay."""
