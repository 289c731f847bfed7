"""What the operator relies on in the catalog's server: it reads its arguments, logs in to its database, or ends and says why."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LISTS = ("/api/model_catalog/v1alpha1/models",)
HEALTH = ("/readyz",)


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        known = path in (*LISTS, *HEALTH)
        body = json.dumps({"items": [], "nextPageToken": "", "pageSize": 0, "size": 0}).encode() if known else b""
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        return


def log_in(dsn: str) -> None:
    """With the address that was given; or, as the catalog, with the variables that every client of PostgreSQL reads."""
    done = subprocess.run(
        ["psql", *([dsn] if dsn else []), "-w", "-At", "-c", "select 1"], capture_output=True, text=True, timeout=60
    )
    if done.returncode:
        why = " ".join(done.stderr.split()).replace(")", "").replace("(", "")
        print(f"Check failed: absl::OkStatus() == status (OK vs. UNAUTHENTICATED: {why}) cannot log in", flush=True)
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("mode", choices=("proxy", "catalog"))
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--embedmd-database-dsn", default="")
    options, _ = parser.parse_known_args()
    log_in(options.embedmd_database_dsn)
    ThreadingHTTPServer((options.host, options.port), Answers).serve_forever()


if __name__ == "__main__":
    main()
