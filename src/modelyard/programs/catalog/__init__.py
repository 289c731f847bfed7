"""The model catalog's server: curated lists of models, MCP servers and agents, read from files and searched over HTTP."""
