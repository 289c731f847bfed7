"""The controller of bench-runtime on Modelyard, as a process of its own: `python -m bench.our_greetings KUBECONFIG`.

Prints one line of JSON when it has settled after its start, and another one for each line that it reads: what it has asked of
the server since the line before.
"""

from __future__ import annotations

import asyncio
import json
import sys

from bench.greetings import controllers
from bench.limit import Counted, settled
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.runtime.process.manager import Manager


async def run(kubeconfig: str) -> None:
    counted = Counted(connect(kubeconfig).transport)
    loop = asyncio.get_running_loop()
    async with Manager(Client(counted), controllers()) as running:
        while True:
            await settled(running)
            print(json.dumps({"requests": dict(counted.requests), "writes": counted.writes}), flush=True)
            counted.reset()
            if not await loop.run_in_executor(None, sys.stdin.readline):
                break
    await counted.close()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
