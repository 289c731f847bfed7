"""The `modelyard/http-echo` image: a tiny HTTP server that does what its arguments, its variables and requests say.

Options (or variables `ECHO_*`): --port, --text, --start-delay, --exit-after with --exit-code, --allocate-mb, --fail
(comma-separated paths that answer 500), --ignore-term, --linger (seconds between SIGTERM and exit), --print. Also the
options of `hashicorp/http-echo`: -text, -listen.
Paths: /delay/SECONDS, /status/CODE, /exit/CODE, /allocate/MB, /env/NAME, /file/PATH, /health/on, /health/off, /healthz.
Standard library only, single-threaded on selectors so that fifty of them are cheap.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys


class Echo:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.failing = {path for path in options.fail.split(",") if path}
        self.healthy = True
        self.hoard: list[bytearray] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                line = await reader.readline()
                if not line:
                    break
                method, path, *_ = [*line.decode("latin-1").split(), "", ""]
                length, keep = 0, True
                while (header := await reader.readline()) not in (b"\r\n", b"\n", b""):
                    name, _, value = header.decode("latin-1").partition(":")
                    if name.lower() == "content-length":
                        length = int(value)
                    if name.lower() == "connection" and value.strip().lower() == "close":
                        keep = False
                body = await reader.readexactly(length) if length else b""
                status, text = await self.answer(method, path.partition("?")[0], body)
                data = text.encode()
                head = f"HTTP/1.1 {status} Status\r\nContent-Type: text/plain\r\nContent-Length: {len(data)}\r\n\r\n"
                writer.write(head.encode() + data)
                await writer.drain()
                if not keep:
                    break
        writer.close()

    async def answer(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        if path in self.failing:
            return 500, "told to fail\n"
        verb, _, rest = path.strip("/").partition("/")
        match verb:
            case "delay":
                await asyncio.sleep(float(rest))
            case "status":
                return int(rest), f"status {rest}\n"
            case "exit":
                print(f"exiting with {rest}", flush=True)
                os._exit(int(rest))
            case "allocate":
                self.allocate(int(rest))
            case "env":
                return 200, os.environ.get(rest, "") + "\n"
            case "file":
                return content(f"/{rest}")
            case "health":
                self.healthy = rest == "on"
            case "healthz":
                return (200, "ok\n") if self.healthy else (503, "unhealthy\n")
        if method == "POST":
            return 200, body.decode(errors="replace")
        return 200, f"{self.options.text or socket.gethostname()}\n"

    def allocate(self, megabytes: int) -> None:
        for _ in range(megabytes):
            self.hoard.append(bytearray(os.urandom(1 << 20)))


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def content(path: str) -> tuple[int, str]:
    try:
        with open(path) as file:
            return 200, file.read()
    except OSError as error:
        return 404, f"{error}\n"


async def run(options: argparse.Namespace) -> int:
    echo = Echo(options)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    for line in options.print.split("|"):
        if line:
            print(line, flush=True)
    if options.start_delay:
        await asyncio.sleep(options.start_delay)
    if options.allocate_mb:
        echo.allocate(options.allocate_mb)
    if options.port:
        server = await asyncio.start_server(echo.serve, options.host, options.port)
        print(f"listening on {options.host}:{options.port}", flush=True)
    else:
        server = None
    code = 0
    if options.exit_after >= 0:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), options.exit_after)
        code = 0 if stop.is_set() else options.exit_code
    else:
        await stop.wait()
    if stop.is_set():
        print("terminating", flush=True)
        await asyncio.sleep(options.linger)
    if server is not None:
        server.close()
    return code


def main(arguments: list[str]) -> int:
    env = os.environ
    parser = argparse.ArgumentParser(prog="http-echo")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=int(env.get("ECHO_PORT", "8080")))
    parser.add_argument("-listen", dest="port", type=port_of, default=argparse.SUPPRESS, metavar="ADDRESS:PORT")
    parser.add_argument("--text", "-text", default=env.get("ECHO_TEXT", ""))
    parser.add_argument("--start-delay", type=float, default=float(env.get("ECHO_START_DELAY", "0")))
    parser.add_argument("--exit-after", type=float, default=float(env.get("ECHO_EXIT_AFTER", "-1")))
    parser.add_argument("--exit-code", type=int, default=int(env.get("ECHO_EXIT_CODE", "0")))
    parser.add_argument("--allocate-mb", type=int, default=int(env.get("ECHO_ALLOCATE_MB", "0")))
    parser.add_argument("--fail", default=env.get("ECHO_FAIL", ""))
    parser.add_argument("--ignore-term", action="store_true", default=bool(env.get("ECHO_IGNORE_TERM")))
    parser.add_argument("--linger", type=float, default=float(env.get("ECHO_LINGER", "0")))
    parser.add_argument("--print", default=env.get("ECHO_PRINT", ""))
    return asyncio.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
