"""Who asks, and what they may do: authentication, impersonation, RBAC and the reviews that answer questions about both."""
