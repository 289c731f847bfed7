"""Database work off the event loop: a bounded number of threads and connections, and writes that are durable when they return."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from modelyard.programs.database.session import Conflicted, DatabaseDown, Dialect, Session
from modelyard.programs.database.sqlite import SqliteSession

T = TypeVar("T")
_ATTEMPTS = 20
_WAITING = 1024
_BATCH = 64


class Database:
    """`work` gets a session and runs in a thread. A write may run more than once before it succeeds, so it must only use its session."""

    def __init__(self, connect: Callable[[bool], Session], dialect: Dialect, *, threads: int) -> None:
        self.dialect = dialect
        self._connect = connect
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="database")
        self._idle: queue.LifoQueue[Session] = queue.LifoQueue()
        self._waiting = 0
        self._single_writer = _SingleWriter(connect) if dialect.name == "sqlite" else None

    async def read(self, work: Callable[[Session], T]) -> T:
        return await self._admitted(lambda: self._threads.submit(self._with_session, work))

    async def write(self, work: Callable[[Session], T]) -> T:
        if self._single_writer is not None:
            writer = self._single_writer
            return await self._admitted(lambda: writer.submit(work))
        return await self._admitted(lambda: self._threads.submit(self._with_session, _Transaction(work)))

    async def _admitted(self, submit: Callable[[], Future[T]]) -> T:
        if self._waiting >= _WAITING:
            raise DatabaseDown(f"{_WAITING} requests are waiting for the database already")
        self._waiting += 1
        try:
            return await asyncio.wrap_future(submit())
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._single_writer is not None:
            self._single_writer.close()
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _with_session(self, work: Callable[[Session], T]) -> T:
        while True:
            try:
                session, fresh = self._idle.get_nowait(), False
            except queue.Empty:
                session, fresh = self._connect(False), True
            try:
                result = work(session)
            except DatabaseDown:
                session.close()
                # A connection that has been idle may be dead although the server is well: only a fresh one proves an outage.
                if fresh or (isinstance(work, _Transaction) and work.committing):
                    raise
                continue
            except BaseException:
                self._idle.put(session)
                raise
            self._idle.put(session)
            return result


class _Transaction:
    """One write on a database that lets several run at a time; those that it gives up in favor of others are tried again."""

    def __init__(self, work: Callable[[Session], Any]) -> None:
        self._work = work
        self.committing = False

    def __call__(self, session: Session) -> Any:
        for attempt in range(_ATTEMPTS):
            self.committing = False
            session.begin()
            try:
                result = self._work(session)
                self.committing = True
                session.commit()
            except Conflicted as error:
                session.rollback()
                if attempt == _ATTEMPTS - 1:
                    raise DatabaseDown(f"too many writers of the same rows: {error}") from error
            except DatabaseDown:
                raise
            except BaseException:
                session.rollback()
                raise
            else:
                return result
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Job:
    work: Callable[[Session], Any]
    done: Future[Any]


class _SingleWriter:
    """The one thread that writes an SQLite file. What waits when a commit ends shares the next one, so that all share its wait for the disk."""

    def __init__(self, connect: Callable[[bool], Session]) -> None:
        self._connect = connect
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="database-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Session], T]) -> Future[T]:
        done: Future[T] = Future()
        self._jobs.put(_Job(work, done))
        return done

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        session: SqliteSession | None = None
        while True:
            first = self._jobs.get()
            if first is None:
                break
            batch, closing = self._collect(first)
            try:
                if session is None:
                    opened = self._connect(True)
                    assert isinstance(opened, SqliteSession)
                    session = opened
                _run_batch(session, batch)
            except BaseException as error:
                for job in batch:
                    if not job.done.done():
                        job.done.set_exception(error)
                if session is not None:
                    session.close()
                    session = None
            if closing:
                break
        if session is not None:
            session.close()

    def _collect(self, first: _Job) -> tuple[list[_Job], bool]:
        batch = [first]
        while len(batch) < _BATCH:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False


def _run_batch(session: SqliteSession, batch: list[_Job]) -> None:
    results: list[tuple[_Job, Any, BaseException | None]] = []
    session.begin()
    for job in batch:
        session.savepoint("SAVEPOINT")
        try:
            results.append((job, job.work(session), None))
        except DatabaseDown:
            session.rollback()
            raise
        except BaseException as error:
            session.savepoint("ROLLBACK TO")
            results.append((job, None, error))
        session.savepoint("RELEASE")
    session.commit()
    for job, result, failure in results:
        if not job.done.set_running_or_notify_cancel():
            continue
        if failure is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(failure)
