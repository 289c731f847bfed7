"""The strategy of certificate signing requests: what was asked for never changes; approval and certificate have a door each."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.builtin.rules import BuiltinStrategy, Rules
from modelyard.local.apiserver.requests.problems import (
    Cause,
    duplicate,
    field_forbidden,
    invalid_value,
    not_supported,
    required,
)

SIGNING_REQUEST = Kind(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", namespaced=False
)
_DECISIONS = ("Approved", "Denied")
_FINAL = (*_DECISIONS, "Failed")
_LEAST_SECONDS = 600
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only",
    "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
    "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
)  # fmt: skip


class SigningRequestStrategy(BuiltinStrategy):
    def __init__(self) -> None:
        super().__init__(Rules(SIGNING_REQUEST, status=True, name=lambda name: ()))

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        new["spec"] = old["spec"]
        before = old.get("status") or {}
        if not subresource:
            new["status"] = before
            return
        status = new.get("status") or {}
        if subresource == "approval":
            new["status"] = {k: v for k, v in before.items() if k != "conditions"}
            if status.get("conditions"):
                new["status"]["conditions"] = status["conditions"]
            return
        for decision in _DECISIONS:
            kept, given = _of_type(before, decision), _of_type(status, decision)
            if len(kept) == len(given):
                for mine, theirs in zip(given, kept, strict=True):
                    mine.clear()
                    mine.update(theirs)

    def validate(self, obj: Object, old: Object | None, subresource: str) -> list[Cause]:
        found = _spec(obj["spec"]) if old is None else []
        status = obj.get("status") or {}
        found += _conditions(status.get("conditions") or ())
        if old is None:
            return found
        before = old.get("status") or {}
        for kind in _FINAL:
            had, has = len(_of_type(before, kind)), len(_of_type(status, kind))
            if has < had:
                found.append(_conditions_may_not("remove", kind))
            elif has > had and kind in _DECISIONS and subresource != "approval":
                found.append(_conditions_may_not("add", kind))
        if status.get("certificate") != before.get("certificate"):
            if subresource != "status":
                found.append(field_forbidden("status.certificate", "updates may not set certificate content"))
            elif before.get("certificate"):
                found.append(
                    field_forbidden("status.certificate", "updates may not modify existing certificate content")
                )
        return found

    def reset_fields(self, subresource: str) -> Sequence[Sequence[str]]:
        if subresource == "approval":
            return (("spec",), ("status", "certificate"))
        return (("spec",), ("status", "conditions")) if subresource else (("spec",), ("status",))


def _of_type(status: Object, kind: str) -> list[Object]:
    return [condition for condition in status.get("conditions") or () if condition.get("type") == kind]


def _conditions_may_not(verb: str, kind: str) -> Cause:
    return field_forbidden("status.conditions", f'updates may not {verb} a condition of type "{kind}"')


def _spec(spec: Object) -> list[Cause]:
    found: list[Cause] = []
    request = spec.get("request") or ""
    if why := _unreadable(request):
        found.append(invalid_value("spec.request", request, why))
    usages = spec.get("usages") or []
    if not usages:
        found.append(required("spec.usages"))
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            found.append(not_supported(f"spec.usages[{index}]", usage, _USAGES))
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            found.append(duplicate(f"spec.usages[{index}]", usage))
    signer = spec.get("signerName") or ""
    if signer == _LEGACY_SIGNER:
        why = "the legacy signerName is not allowed via this API version"
        found.append(invalid_value("spec.signerName", signer, why))
    elif not signer:
        found.append(required("spec.signerName"))
    elif signer.count("/") != 1:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        found.append(invalid_value("spec.signerName", signer, why))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _LEAST_SECONDS:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        found.append(invalid_value("spec.expirationSeconds", seconds, why))
    return found


def _unreadable(request: str) -> str:
    """What is wrong with a PEM request; empty where it can be read and its own key has signed it."""
    not_pem = "PEM block type must be CERTIFICATE REQUEST"
    # Loaded with the first request: it takes several megabytes.
    from cryptography import x509

    try:
        pem = base64.b64decode(request, validate=True)
        if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
            return not_pem
        parsed = x509.load_pem_x509_csr(pem)
    except (binascii.Error, ValueError) as error:
        return f"{not_pem}: {error}"
    return "" if parsed.is_signature_valid else "x509: the signature does not fit the request"


def _conditions(conditions: Sequence[Object]) -> list[Cause]:
    found: list[Cause] = []
    seen: list[str] = []
    for index, condition in enumerate(conditions):
        field, kind, status = f"status.conditions[{index}]", condition.get("type") or "", condition.get("status") or ""
        if not kind:
            found.append(required(f"{field}.type"))
        allowed = ("True",) if kind in _FINAL else ("False", "True", "Unknown")
        if not status:
            found.append(required(f"{field}.status"))
        elif status not in allowed:
            found.append(not_supported(f"{field}.status", status, allowed))
        if kind in _DECISIONS and any(other in seen for other in _DECISIONS if other != kind):
            names = [f'conditions[{{"type": "{decision}"}}]' for decision in _DECISIONS]
            why = "must specify at most one of: " + ", ".join(f"`{name}`" for name in names)
            found.append(invalid_value("status.conditions", "{" + ", ".join(names) + "}", why))
        if kind in seen:
            found.append(duplicate(f"{field}.type", kind))
        seen.append(kind)
    return found
