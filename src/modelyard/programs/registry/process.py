"""The registry's process: settings in, a listening port, a database that may come later, an end that loses no request."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from modelyard.programs.database import DatabaseDown, Refused, Source, SourceError, Tls, open_database
from modelyard.programs.database.source import TYPES, DatabaseType, type_of
from modelyard.programs.listener import Listener, stop_signal
from modelyard.programs.registry import schema
from modelyard.programs.registry.app import Registry
from modelyard.programs.settings import LOGGING, Flag, Settings, UsageError, fail, read_settings
from modelyard.programs.web import Cors

ATTEMPTS = 25
_DATABASE = "embedmd-database"
FLAGS = (
    Flag("hostname", "localhost", "address to listen on", short="n"),
    Flag("port", "8080", "port to listen on", short="p"),
    Flag("datastore-type", "embedmd", "only embedmd"),
    Flag(f"{_DATABASE}-type", "", "sqlite, postgres or mysql; where it is absent, the address tells"),
    Flag(f"{_DATABASE}-dsn", "", "address of the database; for sqlite the path of its file"),
    Flag(f"{_DATABASE}-ssl-cert", "", "client certificate for the database"),
    Flag(f"{_DATABASE}-ssl-key", "", "key of the client certificate"),
    Flag(f"{_DATABASE}-ssl-root-cert", "", "certificate of the authority that signed the database's"),
    Flag(f"{_DATABASE}-ssl-ca", "", "the same, for mysql also a directory of certificates"),
    Flag(f"{_DATABASE}-ssl-cipher", "", "colon list of ciphers (mysql)"),
    Flag(f"{_DATABASE}-ssl-verify-server-cert", "", "check the name in the database's certificate", boolean=True),
    Flag("cors-allowed-origins", "", "comma list of origins, or *"),
    Flag("alpha-sunset-date", "", "YYYY-MM-DD: announce the end of v1alpha3 in its answers"),
    *LOGGING,
)
DEFAULT_FILE = "model-registry.db"
log = logging.getLogger("modelyard.programs.registry")


class Alert(Exception):
    """The server cannot go on; the message goes to the log's last line."""


@dataclass(frozen=True)
class Config:
    host: str
    port: int
    source: Source
    cors: Cors
    alpha_sunset: date | None = None


def read_config(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[Config, Settings]:
    settings = read_settings(FLAGS, argv, environ)
    if settings.text("datastore-type") != "embedmd":
        raise UsageError(f"unsupported datastore type {settings.text('datastore-type')!r}: only embedmd is known")
    config = Config(
        host=settings.text("hostname"),
        port=settings.number("port"),
        source=_source(settings, environ),
        cors=Cors.parsed(settings.text("cors-allowed-origins")),
        alpha_sunset=_day(settings.text("alpha-sunset-date")),
    )
    return config, settings


def _source(settings: Settings, environ: Mapping[str, str]) -> Source:
    def of(name: str) -> str:
        return settings.text(f"{_DATABASE}-{name}")

    address = of("dsn")
    database_type: DatabaseType = type_of(address)
    if word := of("type"):
        if word not in TYPES:
            raise UsageError(f"unsupported database type {word!r}: expected one of {', '.join(TYPES)}")
        database_type = next(known for known in TYPES if known == word)
    if database_type == "sqlite":
        address = address or DEFAULT_FILE
    if of("ssl-cipher") and database_type == "postgres":
        log.warning("--%s-ssl-cipher has no meaning for postgres and is ignored", _DATABASE)
    tls = Tls(
        certificate=of("ssl-cert"),
        key=of("ssl-key"),
        root_certificate=of("ssl-root-cert"),
        authorities=of("ssl-ca"),
        verify=settings.is_true(f"{_DATABASE}-ssl-verify-server-cert"),
        cipher=of("ssl-cipher"),
        key_password=environ.get("POSTGRES_SSLPASSWORD", ""),
    )
    return Source(database_type, address, tls)


def _day(text: str) -> date | None:
    if not text:
        return None
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        raise UsageError(f"--alpha-sunset-date: expected YYYY-MM-DD, found {text!r}")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--alpha-sunset-date: {error}") from None


class Server:
    """A listening registry. The port opens at once; until the database is there, every answer is 503."""

    def __init__(self, config: Config) -> None:
        self.registry = Registry(config.cors, config.alpha_sunset)
        self._database = open_database(config.source)
        self._listener = Listener(self.registry.handler(), config.host, config.port, log)

    @property
    def address(self) -> str:
        return self._listener.address

    async def start(self) -> None:
        """Opens the port."""
        await self._listener.open()

    async def connect(self, *, pause: float = 1) -> None:
        """Waits for the database and makes its tables. Raises `Alert` where waiting does not help, or has not helped."""
        said = ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._database.write(schema.prepare)
            except DatabaseDown as error:
                said = str(error)
                self.registry.waiting_for = f"database connector not initialized: {said}"
                log.warning("attempt %d of %d to reach the database failed: %s", attempt, ATTEMPTS, said)
                await asyncio.sleep(pause * attempt)
            except (Refused, schema.Dirty) as error:
                raise Alert(str(error)) from None
            else:
                self.registry.database = self._database
                return
        raise Alert(f"the database could not be reached in {ATTEMPTS} attempts: {said}")

    async def stop(self) -> None:
        """Takes no new requests, finishes the ones it has, closes the database."""
        await self._listener.close()
        await asyncio.to_thread(self._database.close)


async def serve(config: Config) -> int:
    """Runs until SIGTERM or SIGINT; gives the exit code."""
    stopped = stop_signal()
    server = Server(config)
    try:
        await server.start()
    except OSError as error:
        print(f"cannot listen on {config.host}:{config.port}: {error.strerror}", file=sys.stderr)
        return 1
    log.warning("listening on %s", server.address)
    connecting = asyncio.ensure_future(server.connect())
    waiting = asyncio.ensure_future(stopped.wait())
    code = 0
    try:
        await asyncio.wait({connecting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if connecting.done():
            connecting.result()
            log.warning("the database is ready")
            await waiting
    except Alert as alert:
        _tell(str(alert))
        code = 1
    finally:
        connecting.cancel()
        waiting.cancel()
        await server.stop()
    return code


def _tell(said: str) -> None:
    """The operator looks for these words in a pod's log, and shows what stands in them in the registry's status."""
    said = " ".join(said.split())
    if "password" in said or "denied" in said or "authenti" in said:
        inner = said.replace("(", "").replace(")", "")
        said = f"Check failed: absl::OkStatus() == status (OK vs. UNAUTHENTICATED: {inner}) cannot log in"
    else:
        said = f"{{{{ALERT}}}} {said}"
    print(said, file=sys.stderr, flush=True)


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        config, settings = read_config(argv, environ)
        logging.getLogger().setLevel(logging.INFO if settings.number("v") else logging.WARNING)
        return asyncio.run(serve(config))
    except (UsageError, SourceError) as error:
        fail("model-registry proxy", str(error), FLAGS)
