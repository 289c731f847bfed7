"""What others need to verify service-account tokens themselves: the issuer's OpenID configuration and its public keys."""

from __future__ import annotations

from modelyard.local.apiserver.auth.tokens import ServiceAccountTokens
from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.messages import JSON, Reply, Request
from modelyard.local.apiserver.storage.store import encode

CONFIGURATION = "/.well-known/openid-configuration"
KEYS = "/openid/v1/jwks"
PATHS = (CONFIGURATION, KEYS)
_HEADERS = [("Cache-Control", "public, max-age=3600")]


def reply(tokens: ServiceAccountTokens, request: Request) -> Reply | None:
    """None for a path that is not the issuer's."""
    if request.path not in PATHS:
        return None
    if request.method != "GET":
        raise problems.method_not_served()
    if request.path == KEYS:
        return Reply(200, encode({"keys": [tokens.key.public_jwk()]}), "application/jwk-set+json", _HEADERS)
    configuration = {
        "issuer": tokens.issuer,
        "jwks_uri": f"https://{request.headers.get('host') or 'kubernetes.default.svc'}{KEYS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [tokens.key.algorithm],
    }
    return Reply(200, encode(configuration), JSON, _HEADERS)
