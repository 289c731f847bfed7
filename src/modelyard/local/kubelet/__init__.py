"""Runs the pods of the local node as processes of the user. `service.Kubelet` is the door; nothing here knows operators."""
