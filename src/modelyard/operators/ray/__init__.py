"""Ray clusters where no KubeRay runs: a RayCluster becomes head and worker pods, Services, and an autoscaler if it asks for one."""
