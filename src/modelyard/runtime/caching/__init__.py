"""The cluster as this process sees it: collections that follow the API, and what each reader may see of them."""
