"""The API server's part of a laptop cluster."""

from __future__ import annotations

import os

from modelyard.local.apiserver.process import serve
from modelyard.local.laptop.layout import Layout
from modelyard.local.laptop.supervisor import notify_ready


async def run(layout: Layout) -> None:
    await serve(
        layout.apiserver,
        kubeconfig=layout.kubeconfig,
        services=os.environ["MODELYARD_SERVICES"],
        kubelet=layout.kubelet,
        on_ready=notify_ready,
    )
