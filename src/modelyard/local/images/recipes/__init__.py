"""The recipes that come with modelyard, one file each; each file has one public name, `recipe`."""
