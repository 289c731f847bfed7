"""In which namespaces certificates are issued: where the operators that are loaded declare that they make Services."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from modelyard.kube import builtin
from modelyard.runtime.controller import Controller
from modelyard.runtime.operator import Operator


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


def reach_of(operators: Iterable[Operator], groups: Set[str], more: Iterable[str] = ()) -> Reach:
    """Where those of the operators' controllers work that are issued for; `more` are namespaces that an admin adds."""
    served = [c for operator in operators for c in operator.controllers if _name(c) in groups]
    owned = [owns for controller in served for owns in controller.owns if owns.kind == builtin.Service]
    named = frozenset(owns.namespace for owns in owned if owns.namespace)
    return Reach(named | frozenset(more), everywhere=any(not owns.namespace for owns in owned))


def _name(controller: Controller) -> str:
    return controller.kind.group if controller.kind is not None else controller.name
