"""Who asks, and what he may: authentication, impersonation, RBAC and the reviews that answer questions about both."""
