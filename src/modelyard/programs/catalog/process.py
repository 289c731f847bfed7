"""The catalog's process: settings in, lists read, a listening port; then it follows its files, its hub and its store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modelyard.programs.catalog import store
from modelyard.programs.catalog.app import Catalog
from modelyard.programs.catalog.documents import BadDocument
from modelyard.programs.catalog.hub import Hub
from modelyard.programs.catalog.library import Library
from modelyard.programs.database import Database, DatabaseDown, Refused, Source, SourceError, open_database
from modelyard.programs.listener import Listener, stop_signal
from modelyard.programs.settings import LOGGING, Flag, Settings, UsageError, fail, read_settings
from modelyard.programs.web import Cors

FLAGS = (
    Flag("listen", "0.0.0.0:8080", "address and port to listen on", short="l"),
    Flag("catalogs-path", "sources.yaml", "a file with sources; may be repeated", repeated=True),
    Flag("performance-metrics", "", "a directory with performance data; may be repeated", repeated=True),
    Flag("cors-allowed-origins", "", "comma list of origins, or *"),
    Flag(
        "database", "", "an SQLite file or a postgresql:// address; without it PGHOST and its sisters say where it is"
    ),
    *LOGGING,
)
DEFAULT_FILE = "model-catalog.db"
SAMPLES = Path(__file__).parent / "samples"
"""A `sources.yaml` with a few lists, and measurements beside it."""
_TICK_SECONDS = 1.0
_STORE_PAUSE = 5
"""So many ticks pass before a store that is away is asked again."""
log = logging.getLogger("modelyard.programs.catalog")


@dataclass(frozen=True)
class Config:
    host: str
    port: int
    paths: Sequence[Path]
    source: Source
    performance: Sequence[Path] = ()
    cors: Cors = field(default_factory=Cors)


def read_config(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[Config, Settings]:
    settings = read_settings(FLAGS, argv, environ)
    host, port = _address(settings.text("listen"))
    origins = settings.text("cors-allowed-origins") or environ.get("CATALOG_CORS_ALLOWED_ORIGINS", "")
    config = Config(
        host=host,
        port=port,
        paths=[Path(path) for path in settings.all("catalogs-path")],
        performance=[Path(path) for path in settings.all("performance-metrics")],
        source=database_of(settings.text("database"), environ),
        cors=Cors.parsed(origins),
    )
    return config, settings


def database_of(address: str, environ: Mapping[str, str]) -> Source:
    """The store: where the address says, else where libpq's variables say, else a file here."""
    if address.startswith(("postgres://", "postgresql://")):
        return Source("postgres", address, threads=1)
    if address or not (environ.get("PGHOST") or environ.get("PGSERVICE")):
        return Source("sqlite", address or DEFAULT_FILE)
    return Source("postgres", "", threads=1)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen: expected an address with a port, such as 0.0.0.0:8080, found {text!r}")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)


class Server:
    """A listening catalog. It serves from memory: a database or a hub that is away takes nothing out of service."""

    def __init__(self, config: Config, environ: Mapping[str, str] = os.environ, *, tick: float = _TICK_SECONDS) -> None:
        self.library = Library(config.paths, config.performance)
        self.catalog = Catalog(self.library, config.cors)
        self._database = open_database(config.source)
        self._store = _Store(self._database, self.library, self.catalog.notes)
        self._hub = Hub(self.library, environ)
        self._listener = Listener(self.catalog.handler(), config.host, config.port, log)
        self._tick = tick
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        return self._listener.address

    async def start(self) -> None:
        """Reads everything, then opens the port. Raises `BadDocument` where the configuration cannot be used."""
        await asyncio.to_thread(self.library.open)
        if self.library.lacks():
            # What stood in files that cannot be read now is served from the start, if the store is there.
            await self._store.follow()
        await self._listener.open()
        self._tasks = [asyncio.create_task(self._follow_files()), asyncio.create_task(self._follow_store())]
        self._tasks.append(asyncio.create_task(self._hub.follow(self._tick)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.close()
        await self._hub.close()
        await asyncio.to_thread(self._database.close)

    async def _follow_files(self) -> None:
        while True:
            await asyncio.sleep(self._tick)
            try:
                if await asyncio.to_thread(self.library.refresh):
                    log.warning("the lists were read again")
            except Exception:
                log.exception("reading the lists again failed")

    async def _follow_store(self) -> None:
        while True:
            await self._store.follow()
            await asyncio.sleep(self._tick if self._store.is_well else self._tick * _STORE_PAUSE)


class _Store:
    """Brings what sources said last to the database, and from there where nothing else says it."""

    def __init__(self, database: Database, library: Library, notes: dict[str, str]) -> None:
        self._database = database
        self._library = library
        self._notes = notes
        self._restored = False
        self._prepared = False

    @property
    def is_well(self) -> bool:
        return "store" not in self._notes

    async def follow(self) -> None:
        try:
            await self._work()
        except (DatabaseDown, Refused) as error:
            if self.is_well:
                log.warning("the store cannot be used, the catalog goes on without it: %s", error)
            self._notes["store"] = "the database cannot be used; the lists are served from memory"
        except Exception:
            log.exception("the store failed, the catalog goes on without it")
            self._notes["store"] = "the database failed; the lists are served from memory"
        else:
            if not self.is_well:
                log.warning("the store can be used again")
            self._notes.pop("store", None)

    async def _work(self) -> None:
        if not self._prepared:
            await self._database.write(store.prepare)
            self._prepared = True
        if not self._restored:
            stored = await self._database.read(store.read)
            for identity in await asyncio.to_thread(self._library.restore, stored):
                log.warning("source %s is served as it was stored before", identity)
            self._restored = True
        good = dict(self._library.good)
        configured = {source.id for source in self._library.snapshot.config.sources}
        if good:
            await self._database.write(lambda session: store.write(session, good, configured))
            for identity, kept in good.items():
                if self._library.good.get(identity) is kept:
                    del self._library.good[identity]


async def serve(config: Config) -> int:
    """Runs until SIGTERM or SIGINT; gives the exit code."""
    stopped = stop_signal()
    server = Server(config)
    try:
        await server.start()
    except BadDocument as error:
        print(f"the catalog cannot start: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"cannot listen on {config.host}:{config.port}: {error.strerror}", file=sys.stderr)
        return 1
    log.warning("listening on %s", server.address)
    try:
        await stopped.wait()
    finally:
        await server.stop()
    return 0


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    with contextlib.suppress(KeyboardInterrupt):
        try:
            config, settings = read_config(argv, environ)
            logging.getLogger().setLevel(logging.INFO if settings.number("v") else logging.WARNING)
            return asyncio.run(serve(config))
        except (UsageError, SourceError) as error:
            fail("model-registry catalog", str(error), FLAGS)
    return 0
