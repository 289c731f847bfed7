"""HTTP as both programs speak it: error bodies, JSON answers, query strings, request bodies, CORS. Knows no resources."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

import msgspec
from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.http_exceptions import HttpProcessingError

from modelyard.programs.database.session import DatabaseDown, TooLarge
from modelyard.programs.filter_query import FilterError

JSON = "application/json; charset=UTF-8"
MAX_BODY = 16 * 1024 * 1024
BODY_PAUSE = 60.0
"""Seconds without a byte of a body after which the client is taken for gone."""
_CUT_OFF = (ConnectionError, web.RequestPayloadError, HttpProcessingError)
"""What reading a body raises when the client left, or sent what cannot be read: nothing that is wrong here."""
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
log = logging.getLogger("modelyard.programs")

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class ApiError(Exception):
    """An answer other than the one asked for. The message is for the caller."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """The public clients expect 422 with the code of 400."""
    phrase = HTTPStatus(400 if status == 422 else status).phrase
    return json_response({"code": phrase, "message": message}, status, headers)


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return bytes_response(msgspec.json.encode(body), status, headers)


def bytes_response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer whose JSON is made already."""
    return web.Response(status=status, body=body + b"\n", headers={"Content-Type": JSON, **(headers or {})})


def answering(handler: Handler) -> Handler:
    """The handler with every failure turned into an answer with a body."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return error_response(error.status, error.message)
        except FilterError as error:
            return error_response(400, str(error))
        except DatabaseDown as error:
            log.warning("database: %s", error)
            return error_response(
                503,
                "The database cannot be reached or is too busy. The request was not carried out, or its result is unknown; "
                "try again later.",
                {"Retry-After": "2"},
            )
        except TooLarge as error:
            return error_response(413, str(error))
        except (ConnectionResetError, web.HTTPException):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, raw_path(request)[0])
            return error_response(500, "The server failed on this request; its log says why.")

    return answer


class _Connection(web.RequestHandler):
    """What cannot be read as HTTP gets an answer like everything else, and no traceback in the log: it is the caller's mistake."""

    def log_exception(self, *arguments: Any, **options: Any) -> None:
        level = logging.INFO if isinstance(options.get("exc_info"), _CUT_OFF) else logging.ERROR
        log.log(level, *arguments, **options)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        reason = (message or "").partition("\n")[0].strip(" :") or "it cannot be read"
        response = error_response(
            status, f"this is not an HTTP request: {reason}. Escape special characters of a URL as %XX"
        )
        response.force_close()
        return response


class JsonServer(web.Server):
    """A server of one handler whose every answer is JSON."""

    def __init__(self, handler: Handler, **options: Any) -> None:
        super().__init__(handler, **options)
        self._options = options

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=asyncio.get_running_loop(), **self._options)


class Query:
    """The query string: percent escapes are checked, the first of repeated parameters counts, an empty value is an absent one."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, list[str]] = {}
        if not text:
            return
        if _BAD_ESCAPE.search(text):
            raise ApiError(400, "malformed percent escape in the query string")
        for pair in text.split("&"):
            name, _, value = pair.partition("=")
            if not name:
                continue
            decoded = _decoded(value, name)
            if "\0" in decoded:
                raise ApiError(400, f"Invalid {name} query parameter: it contains null bytes, which are not allowed")
            self._values.setdefault(_decoded(name, "name of a"), []).append(decoded)

    def get(self, name: str) -> str | None:
        """None where the parameter is absent or empty."""
        found = self._values.get(name)
        return (found[0] or None) if found else None

    def all(self, name: str) -> list[str]:
        return [value for value in self._values.get(name, []) if value]


def _decoded(text: str, name: str) -> str:
    try:
        return unquote_to_bytes(text.replace("+", " ")).decode()
    except UnicodeDecodeError:
        raise ApiError(400, f"Invalid {name} query parameter: it is not UTF-8") from None


def raw_path(request: web.BaseRequest) -> tuple[str, str]:
    """Path and query string as the client sent them, not decoded."""
    path, _, query = request.raw_path.partition("?")
    return path, query.partition("#")[0]


async def read_body(request: web.BaseRequest, *, pause: float = BODY_PAUSE) -> object:
    """The JSON value of a request; 400, 408 or 413 with a sentence for everything else."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    chunks, size = [], 0
    try:
        while chunk := await asyncio.wait_for(request.content.readany(), pause):
            size += len(chunk)
            if size > MAX_BODY:
                raise ApiError(413, f"The request body is larger than {MAX_BODY // 2**20} MiB")
            chunks.append(chunk)
    except TimeoutError:
        raise ApiError(408, f"no byte of the request body came for {pause:.0f} seconds") from None
    except _CUT_OFF as error:
        raise ApiError(400, f"the request body cannot be read to its end: {type(error).__name__}") from None
    return decode_body(b"".join(chunks))


def decode_body(raw: bytes) -> object:
    if b"\0" in raw or b"\\u0000" in raw:
        raise ApiError(400, "Request body contains null bytes which are not allowed")
    if not raw.strip():
        raise ApiError(400, "the request body is empty: expected a JSON object")
    try:
        value = json.loads(
            raw.decode(), object_pairs_hook=_without_duplicates, parse_constant=_no_constant, parse_float=_finite
        )
        if b"\\u" in raw:
            msgspec.json.encode(value)
    except UnicodeDecodeError:
        raise ApiError(400, "the request body is not UTF-8") from None
    except (UnicodeEncodeError, msgspec.MsgspecError):
        raise ApiError(400, "the request body contains half of a surrogate pair, which is not a character") from None
    except json.JSONDecodeError as error:
        raise ApiError(400, f"the request body is not JSON: {error}") from None
    except RecursionError:
        raise ApiError(400, "the request body is nested too deeply") from None
    except ValueError as error:
        raise ApiError(400, f"the request body has a number that cannot be stored: {error}") from None
    return value


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ApiError(400, f"the member {name!r} appears twice in one JSON object")
    return made


def _no_constant(text: str) -> NoReturn:
    raise ApiError(400, f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ApiError(400, f"the number {text[:40]} is too large")
    return number


@dataclass(frozen=True)
class Cors:
    """The origins that a browser's page may come from; `*` is every origin."""

    origins: tuple[str, ...] = ()
    methods = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
    headers = "Accept, Authorization, Content-Type, X-CSRF-Token"
    exposed = "Link, Deprecation, Sunset"

    @classmethod
    def parsed(cls, text: str) -> Cors:
        return cls(tuple(origin.strip() for origin in text.split(",") if origin.strip()))

    def allowed(self, request: web.BaseRequest) -> str | None:
        origin = request.headers.get("Origin")
        if origin is None or not self.origins:
            return None
        if "*" in self.origins:
            return "*"
        return origin if origin in self.origins else None

    def refuses(self, request: web.BaseRequest) -> bool:
        """Whether a browser sends this for a page of another site, which may not change anything here. Any page can make a browser
        post to a server on localhost."""
        if request.method in ("GET", "HEAD", "OPTIONS") or self.allowed(request) is not None:
            return False
        return request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")

    def preflight(self, request: web.BaseRequest) -> web.Response | None:
        """The answer to a browser's question before the real request; None if this is not such a question."""
        allowed = self.allowed(request)
        if request.method != "OPTIONS" or allowed is None or "Access-Control-Request-Method" not in request.headers:
            return None
        return web.Response(
            headers={
                "Access-Control-Allow-Origin": allowed,
                "Access-Control-Allow-Methods": self.methods,
                "Access-Control-Allow-Headers": self.headers,
                "Access-Control-Max-Age": "300",
                "Vary": "Origin",
            }
        )

    def answer_headers(self, request: web.BaseRequest) -> dict[str, str]:
        allowed = self.allowed(request)
        if allowed is None:
            return {}
        return {"Access-Control-Allow-Origin": allowed, "Access-Control-Expose-Headers": self.exposed, "Vary": "Origin"}

    def around(self, answer: Handler) -> Handler:
        """The handler with the headers that these origins need."""

        async def with_cors(request: web.BaseRequest) -> web.StreamResponse:
            preflight = self.preflight(request)
            if preflight is not None:
                return preflight
            if self.refuses(request):
                return error_response(
                    403,
                    "A page of another site may not change anything here; --cors-allowed-origins lets its origin in",
                )
            response = await answer(request)
            if not response.prepared:
                response.headers.update(self.answer_headers(request))
            return response

        return with_cors


class AccessLog(AbstractAccessLogger):
    """One line a request: method, path, status, time. Never headers, which carry tokens."""

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        # The path as it was sent: decoded, it could contain a line break and a line of its own.
        self.logger.info("%s %s %d %.1f ms", request.method, raw_path(request)[0], response.status, time * 1000)
