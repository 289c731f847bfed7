"""What an operator declares: controllers, what a reconcile returns, settings, metrics, permissions. Nothing here acts."""
