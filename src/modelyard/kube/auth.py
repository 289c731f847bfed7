"""Who we are to the API server: credentials that may expire and be fetched anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Credential:
    """What one request is sent with: an `Authorization` header, a client certificate (PEM), both or none."""

    authorization: str = ""
    certificate: str = ""
    key: str = ""


class Credentials(Protocol):
    """Gives the credential to use now."""

    async def current(self) -> Credential: ...

    async def refused(self, used: Credential) -> bool:
        """The server answered 401 to `used`: fetch anew. True if it is worth trying again."""
        ...


@dataclass(frozen=True)
class Static:
    """Credentials that never change."""

    credential: Credential = Credential()

    async def current(self) -> Credential:
        return self.credential

    async def refused(self, used: Credential) -> bool:
        return False
