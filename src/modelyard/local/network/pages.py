"""The gateway's own pages: HTML without scripts or anything from elsewhere, and plain text for programs. No I/O."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from aiohttp import web

OWN = "/_modelyard"
_STYLE = """
:root{color-scheme:light dark;--back:#f6f7f9;--card:#fff;--text:#1b2430;--soft:#566273;--line:#d9dee5;--link:#1a56c4;
--good:#116b3a;--bad:#9a3412;--code:#eef1f5}
@media(prefers-color-scheme:dark){:root{--back:#12161c;--card:#1b212a;--text:#e8ecf2;--soft:#a3afbf;--line:#323b47;
--link:#8ab4ff;--good:#6fd39a;--bad:#ffb27a;--code:#262e39}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:16px/1.55 system-ui,sans-serif}
main{max-width:46rem;margin:0 auto;padding:3.5rem 1.25rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .5rem}
p{margin:.6rem 0}
.soft{color:var(--soft)}
.brand{font-weight:600;color:var(--soft);margin:0 0 1.5rem}
pre{background:var(--code);border:1px solid var(--line);border-radius:.5rem;padding:.8rem 1rem;overflow-x:auto}
code{font:.95em ui-monospace,monospace}
ul{list-style:none;margin:1.5rem 0;padding:0}
li{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:1rem 1.1rem;margin:0 0 .75rem;
display:flex;gap:1rem;align-items:center;justify-content:space-between}
li h2{font-size:1.1rem;margin:0;overflow-wrap:anywhere}
li p{margin:.15rem 0 0;overflow-wrap:anywhere}
.good::before,.bad::before{content:"";display:inline-block;width:.6em;height:.6em;border-radius:50%;background:currentColor;
margin-right:.5em}
.good{color:var(--good)}
.bad{color:var(--bad)}
form{margin:0;flex:none}
button{font:inherit;color:var(--card);background:var(--link);border:1px solid var(--link);border-radius:.5rem;
padding:.45rem 1.1rem;cursor:pointer}
button.plain{color:var(--link);background:none}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
@media(max-width:32rem){li{flex-direction:column;align-items:stretch}}
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


@dataclass(frozen=True, slots=True)
class Service:
    """A line of the start page."""

    source: str
    name: str
    namespace: str
    ready: bool
    says: str
    """Its state, in one sentence."""


def wants_html(request: web.Request) -> bool:
    """Whether a person looks at the answer. Programs ask for JSON or for anything."""
    return "text/html" in request.headers.get("Accept", "")


def answer(
    request: web.Request, status: int, title: str, *paragraphs: str, code: str = "", wait: int = 0
) -> web.Response:
    """One message, as a page or as plain text. `code` is a command to paste; `wait`: when to look again, in seconds."""
    headers = {"Retry-After": str(wait)} if wait else {}
    if not wants_html(request):
        text = " ".join([f"{title}.", *paragraphs, *([f"Run: {code}"] if code else [])])
        return web.Response(status=status, text=f"{text}\n", headers={**headers, **_COMMON})
    inner = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(each)}</p>" for each in paragraphs)]
    if code:
        inner.append(f"<pre><code>{escape(code)}</code></pre>")
    return page(title, "".join(inner), status=status, refresh=wait, headers=headers)


def login_needed(request: web.Request, command: str, what: str = "") -> web.Response:
    """For someone whom the gateway does not know."""
    return answer(
        request,
        401,
        f"Log in to open {what}" if what else "Log in to this Modelyard cluster",
        "This browser is not logged in here. In a terminal on this machine, run the command below and open the link that it prints.",
        "A link works once, within ten minutes. The login ends after twelve hours, or when the cluster stops.",
        code=command,
    )


def used_link(request: web.Request, command: str) -> web.Response:
    return answer(
        request,
        403,
        "This link does not work any more",
        "A login link works once, within ten minutes, and only for the cluster and the service that it was made for. This one was "
        "used already, is too old, or was made for something else. Make a new one:",
        code=command,
    )


def start(services: Sequence[Service], form_token: str, origins: str) -> web.Response:
    """What this cluster serves, with a button for each."""
    lines = "".join(_line(each, form_token) for each in services)
    if not services:
        lines = (
            '<li><p class="soft">Nothing is served yet. A service shows up here when an Ingress, an HTTPRoute or a Route leads to '
            "it, for example after <code>kubectl apply -f examples/quickstart.yaml</code>.</p></li>"
        )
    body = (
        f'<h1>Services</h1><p class="soft">What this cluster serves. <a href="/">Look again</a></p><ul>{lines}</ul>'
        f'<form method="post" action="{OWN}/logout">{_hidden("form", form_token)}'
        '<button class="plain">Log out</button></form>'
    )
    return page("Services", body, forms=origins)


def _line(service: Service, form_token: str) -> str:
    mood = "good" if service.ready else "bad"
    return (
        f'<li><div><h2>{escape(service.name)}</h2><p class="soft">{escape(service.source)}</p>'
        f'<p class="{mood}">{escape(service.says)}</p></div>'
        f'<form method="post" action="{OWN}/open">{_hidden("form", form_token)}{_hidden("to", service.source)}'
        f'<button aria-label="Open {escape(service.name)} in {escape(service.namespace)}">Open</button></form></li>'
    )


def confirm_logout(form_token: str) -> web.Response:
    body = (
        "<h1>Log out?</h1><p>This ends the login of this browser at all services of this cluster.</p>"
        f'<form method="post" action="{OWN}/logout">{_hidden("form", form_token)}<button>Log out</button></form>'
    )
    return page("Log out?", body)


def _hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(value)}">'


def page(
    title: str,
    body: str,
    *,
    status: int = 200,
    forms: str = "",
    refresh: int = 0,
    headers: dict[str, str] | None = None,
) -> web.Response:
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} - Modelyard</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">{again}<style>{_STYLE}</style></head>'
        f'<body><main><p class="brand">Modelyard</p>{body}</main></body></html>'
    )
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self' {forms}".rstrip()
        + "; frame-ancestors 'none'; base-uri 'none'"
    )
    return web.Response(
        status=status,
        text=text,
        content_type="text/html",
        headers={**(headers or {}), **_COMMON, "Content-Security-Policy": policy},
    )


_COMMON = {
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: a browser then sends our own forms with `Origin: null`, and they could not be told from foreign ones.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept",
}
