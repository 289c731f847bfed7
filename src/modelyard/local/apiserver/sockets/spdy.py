"""SPDY/3.1 as kubectl speaks it: many streams over one connection that was upgraded, raw or inside a web socket.

Only what remote commands and port forwarding need: the client opens streams, nobody uses flow control (the clients' library has
none), and a header block is small.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import zlib
from collections.abc import Callable, Mapping
from enum import IntEnum

from modelyard.local.apiserver.requests.messages import Duplex

_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow authorization "
    "cache-control connection content-base content-encoding content-language content-length content-location content-md5 "
    "content-range content-type date etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer "
    "retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status "
    "200_OK version HTTP/1.1 url public set-cookie keep-alive origin"
)
_CODES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found"
    "500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
    "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,"
    "text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack("!I", len(name)) + name.replace("_", " ").encode() for name in _NAMES.split())
    + _CODES.encode()
)
"""What both sides' compressors know from the start; fixed by the protocol."""

_FIN = 0x01
_MOST_CONTROL = 1 << 16
_MOST_DATA = 1 << 24
_MOST_STREAMS = 1000
_PIECE = 32768


class _Type(IntEnum):
    """The kinds of control frames that matter here; others are read over."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7
    HEADERS = 8

    @property
    def word(self) -> int:
        return 0x80030000 | self.value


class Broken(Exception):
    """The other side does not speak the protocol."""


class Stream:
    """One stream that the client opened. It is a `Duplex` too."""

    def __init__(self, session: Session, number: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self._session = session
        self._number = number
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue(16)
        self._unread = False
        self._finished = False

    async def receive(self) -> bytes:
        return await self._incoming.get()

    async def send(self, data: bytes) -> None:
        if not self._finished:
            for start in range(0, len(data), _PIECE):
                await self._session.send_data(self._number, data[start : start + _PIECE], 0)

    async def close(self) -> None:
        """Nothing more comes from this side, and nothing more of the other is read."""
        self._unread = True
        while not self._incoming.empty():
            self._incoming.get_nowait()
        await self.finish()

    async def finish(self) -> None:
        """Nothing more comes from this side."""
        if not self._finished:
            self._finished = True
            await self._session.send_data(self._number, b"", _FIN)

    async def arrived(self, data: bytes) -> None:
        if not self._unread:
            await self._incoming.put(data)

    def lost(self) -> None:
        """The client gave the stream up, or is gone."""
        self._finished = self._unread = True
        while not self._incoming.empty():
            self._incoming.get_nowait()
        self._incoming.put_nowait(b"")


class Session:
    """The server's side of one connection."""

    def __init__(self, pipe: Duplex) -> None:
        self._pipe = pipe
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._streams: dict[int, Stream] = {}
        self._sending = asyncio.Lock()
        self._buffer = bytearray()

    async def run(self, opened: Callable[[Stream], None]) -> None:
        """Reads until the client is done; `opened` gets each stream."""
        try:
            while (head := await self._read(8)) is not None:
                word, size = struct.unpack("!II", head)
                flags, length = size >> 24, size & 0xFFFFFF
                if length > (_MOST_CONTROL if word >> 31 else _MOST_DATA):
                    raise Broken(f"a frame of {length} bytes")
                payload = await self._read(length)
                if payload is None:
                    return
                if not word >> 31:
                    await self._data(word & 0x7FFFFFFF, payload, flags)
                elif await self._control(word & 0xFFFF, payload, flags, opened):
                    return
        finally:
            for stream in self._streams.values():
                stream.lost()
            self._streams.clear()

    async def _read(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            data = await self._pipe.receive()
            if not data:
                return None
            self._buffer += data
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        return piece

    async def _control(self, kind: int, payload: bytes, flags: int, opened: Callable[[Stream], None]) -> bool:
        """Acts on one frame; True if it was the last."""
        try:
            match kind:
                case _Type.SYN_STREAM:
                    await self._open(payload, flags, opened)
                case _Type.HEADERS:
                    self._headers(payload[4:])
                case _Type.RST_STREAM:
                    stream = self._streams.pop(struct.unpack("!I", payload[:4])[0] & 0x7FFFFFFF, None)
                    if stream is not None:
                        stream.lost()
                case _Type.PING if payload[3] & 1:
                    await self._send(_Type.PING.word, 0, payload)
                case _Type.GOAWAY:
                    return True
        except (struct.error, zlib.error, IndexError, UnicodeDecodeError) as error:
            raise Broken(f"a frame of type {kind} that cannot be read: {error}") from None
        return False

    async def _open(self, payload: bytes, flags: int, opened: Callable[[Stream], None]) -> None:
        number = struct.unpack("!I", payload[:4])[0] & 0x7FFFFFFF
        if number in self._streams or len(self._streams) >= _MOST_STREAMS:
            raise Broken(f"stream {number} is one too many")
        stream = Stream(self, number, self._headers(payload[10:]))
        self._streams[number] = stream
        async with self._sending:
            block = self._deflate.compress(struct.pack("!I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            await self._write(_Type.SYN_REPLY.word, 0, struct.pack("!I", number) + block)
        if flags & _FIN:
            await stream.arrived(b"")
        opened(stream)

    def _headers(self, block: bytes) -> dict[str, str]:
        data = self._inflate.decompress(block, _MOST_CONTROL)
        (count,), place = struct.unpack_from("!I", data), 4
        words = []
        for _ in range(2 * min(count, 100)):
            (size,) = struct.unpack_from("!I", data, place)
            words.append(data[place + 4 : place + 4 + size].decode())
            place += 4 + size
        return {name.lower(): value for name, value in zip(words[::2], words[1::2], strict=True)}

    async def _data(self, number: int, payload: bytes, flags: int) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        if payload:
            await stream.arrived(payload)
        if flags & _FIN:
            await stream.arrived(b"")

    async def send_data(self, number: int, data: bytes, flags: int) -> None:
        await self._send(number, flags, data)

    async def _send(self, word: int, flags: int, payload: bytes) -> None:
        async with self._sending:
            await self._write(word, flags, payload)

    async def _write(self, word: int, flags: int, payload: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._pipe.send(struct.pack("!II", word, flags << 24 | len(payload)) + payload)
