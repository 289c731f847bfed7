"""The one error of all patches."""


class PatchError(ValueError):
    """A patch is malformed or does not fit its document; the message says where."""
