"""In which namespaces certificates are issued: where the operators that are loaded declare that they make Services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modelyard.kube import builtin
from modelyard.runtime.declaring.controller import Controller, Owns
from modelyard.runtime.declaring.operator import Operator


@dataclass(frozen=True)
class Reach:
    """The issuer's rights, watches and customers follow from this."""

    namespaces: frozenset[str] = frozenset()
    """The platform's own: whatever asks for a certificate or for the CA in them gets it."""
    everywhere: bool = True
    """Some operator makes Services wherever its resources are; theirs are served in all namespaces."""

    @property
    def places(self) -> Sequence[str | None]:
        """For declarations: None is the whole cluster."""
        return (None,) if self.everywhere else sorted(self.namespaces)


def reach_of(operators: Iterable[Operator], more: Iterable[str] = ()) -> Reach:
    """Where the operators declare Services that may ask for certificates; `more` are namespaces that an admin adds."""
    owned = [owns for operator in operators for controller in operator.controllers for owns in _asking(controller)]
    named = frozenset(owns.namespace for owns in owned if owns.namespace)
    return Reach(named | frozenset(more), everywhere=any(not owns.namespace for owns in owned))


def makers_of(operators: Iterable[Operator]) -> frozenset[str]:
    """Whose Services may ask: the API groups of the resources that own them, or the controller's name where there is no resource."""
    asking = [c for operator in operators for c in operator.controllers if _asking(c)]
    return frozenset(name for c in asking for name in ({kind.group for kind in c.kinds} or {c.name}))


def _asking(controller: Controller) -> list[Owns]:
    return [owns for owns in controller.owns if owns.kind == builtin.Service and owns.serving_certificates]
