"""The server's own controllers: garbage collection, namespaces, the end of Events, the Service of the API."""
