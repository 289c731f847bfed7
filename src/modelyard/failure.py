"""The error that ends a command with one sentence for a person."""


class Failed(Exception):
    """The command cannot do its work; the text is for a person: what is wrong and what to do."""
