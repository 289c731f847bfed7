"""The gateway on a real TLS socket, in front of a small backend, with objects from the embedded API server."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.local.network.gateway import Control
from modelyard.local.network.login import Logins, Target, cookie_name, without_session
from modelyard.local.network.origins import safe_path
from tests.unit.local.network.conftest import HTML, WEB, Site, http_route, ingress


async def test_an_ingress_is_served_with_path_query_and_token(site: Site) -> None:
    status, text = await site.get("/app/x%20y?q=1%262", Authorization="Bearer mine")
    assert (status, text) == (200, "GET|/app/x%20y?q=1%262|Bearer mine|-|")


async def test_a_body_is_passed_on(site: Site) -> None:
    async with site.session.post(site.gateway.url + "/app", data=b"x" * 300_000) as response:
        assert (await response.text()).endswith("|" + "x" * 300_000)


async def test_a_login_link_works_once_and_the_cookie_stands_for_the_services_token(site: Site) -> None:
    link = site.gateway.doors.link(WEB, "/app/home")
    assert link is not None
    origin = link.partition("/_modelyard")[0]
    async with site.session.get(link, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "/app/home")
        cookie = response.cookies[cookie_name(int(origin.rpartition(":")[2]))]
        assert (cookie["httponly"], cookie["secure"], cookie["path"], cookie["domain"]) == (True, True, "/", "")
        assert cookie["samesite"] == "Lax"
        assert cookie.key.startswith("__Host-")
    assert await site.get(f"{origin}/app/home") == (200, "GET|/app/home|Bearer for-demo-web|-|")
    site.session.cookie_jar.clear()
    status, text = await site.get(link, **HTML)
    assert status == 403
    assert "<code>modelyard url web</code>" in text


async def test_a_link_of_another_gateway_logs_nobody_in_and_says_how_to_get_one(site: Site) -> None:
    link = site.gateway.doors.link(WEB)
    assert link is not None
    status, text = await site.get(re.sub(r"code=[^&]+", "code=of-another-gateway", link), **HTML)
    assert status == 403
    assert "<code>modelyard url web</code>" in text
    assert not list(site.session.cookie_jar)


async def test_a_used_link_still_leads_there_in_the_browser_that_used_it(site: Site) -> None:
    link = site.gateway.doors.link(WEB)
    assert link is not None
    assert [(await site.get(link))[0] for _ in range(2)] == [303, 303]


async def test_a_link_is_not_used_up_by_a_browser_that_looks_ahead(site: Site) -> None:
    link = site.gateway.doors.link(WEB)
    assert link is not None
    assert (await site.get(link, **{"Sec-Purpose": "prefetch;prerender"}))[0] == 403
    assert (await site.get(link))[0] == 303


async def test_a_login_at_one_service_means_nothing_at_another(site: Site) -> None:
    await site.client.create(builtin.Ingress, ingress("evil", "other", "/evil"))
    await site.until(lambda: served(site, "Ingress/other/evil"))
    origin = await site.log_in(WEB)
    (cookie,) = [each for each in site.session.cookie_jar if each.key.startswith("__Host-modelyard")]
    evil = site.gateway.doors.link("Ingress/other/evil")
    assert evil is not None
    stolen = {"Cookie": f"{cookie.key}={cookie.value}"}
    assert (await site.get(evil.partition("/_modelyard")[0] + "/evil", **stolen))[1] == "GET|/evil|-|-|"
    assert (await site.get("/app", **stolen))[1] == "GET|/app|-|-|", "no login counts where services share an origin"
    assert (await site.get(f"{origin}/evil", **stolen))[0] == 404, "and the origin of one serves no other"
    code = evil.partition("?")[2]
    site.session.cookie_jar.clear()
    assert (await site.get(f"{origin}/_modelyard/login?{code}"))[0] == 403, "a link for one opens no other"


async def served(site: Site, source: str) -> bool:
    return site.gateway.doors.link(source) is not None


async def test_the_start_pages_login_reaches_no_service(site: Site) -> None:
    home = await site.log_in()
    (cookie,) = site.session.cookie_jar
    assert (await site.get("/app", Cookie=f"{cookie.key}={cookie.value}"))[1] == "GET|/app|-|-|"
    assert (await site.get(f"{home}/app"))[0] == 404, "and its origin serves none"


async def test_a_login_ends_when_the_object_is_made_again_by_someone_else(site: Site) -> None:
    origin = await site.log_in(WEB)
    before = await site.client.get(builtin.Ingress, "demo", "web")
    await site.client.delete(builtin.Ingress, "demo", "web")
    await site.client.create(builtin.Ingress, ingress("web", "demo", "/app"))

    async def replaced() -> bool:
        return (await site.get(f"{origin}/app"))[1] == "GET|/app|-|-|"

    await site.until(replaced)
    assert (await site.client.get(builtin.Ingress, "demo", "web"))["metadata"]["uid"] != before["metadata"]["uid"]


async def test_a_token_of_the_request_wins_over_the_cookie(site: Site) -> None:
    origin = await site.log_in(WEB)
    assert "|Bearer own|" in (await site.get(f"{origin}/app", Authorization="Bearer own"))[1]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://evil-0123456789ab.modelyard.localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_foreign_page_cannot_use_the_login(site: Site, headers: dict[str, str]) -> None:
    origin = await site.log_in(WEB)
    async with site.session.post(f"{origin}/app", headers=headers) as response:
        assert response.status == 403
    assert (await site.get(f"{origin}/app", **headers))[1] == "GET|/app|-|-|", "what it reads is read without the login"
    own = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    async with site.session.post(f"{origin}/app", headers=own) as response:
        assert "|Bearer for-demo-web|" in await response.text()


async def test_a_link_on_a_foreign_page_opens_the_service_logged_in(site: Site) -> None:
    origin = await site.log_in(WEB)
    opened = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert "|Bearer for-demo-web|" in (await site.get(f"{origin}/app", **opened))[1]


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "/\n/evil",
        "/ /x",
        "",
        "x",
        "/ä",
    ],
)
def test_a_login_link_leads_nowhere_else(target: str) -> None:
    assert safe_path(target) == "/"


@pytest.mark.parametrize("target", ["/", "/mlflow/#/experiments?workspace=a", "/a%20b?x=[1]&y=~"])
def test_a_login_link_leads_to_any_place_of_its_service(target: str) -> None:
    assert safe_path(target) == target


async def test_the_place_is_checked_when_the_link_is_used(site: Site) -> None:
    link = site.gateway.doors.link(WEB)
    assert link is not None
    forged = re.sub("next=.*", "next=/%09/evil.example", link)
    async with site.session.get(URL(forged, encoded=True), allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "/")


async def test_links_are_made_for_whoever_has_the_secret_of_the_directory(site: Site, tmp_path: Path) -> None:
    control = Control.read(tmp_path)
    assert control is not None
    assert (tmp_path / "gateway.json").stat().st_mode & 0o077 == 0
    headers = {"Authorization": f"Bearer {control.secret}"}
    where = f"{control.url}/_modelyard/links"
    async with site.session.post(where, json={"to": WEB, "next": "/app"}, headers=headers) as response:
        link = (await response.json())["url"]
    assert (await site.get(link))[0] == 303
    async with site.session.post(where, json={"to": "Ingress/no/such"}, headers=headers) as response:
        assert response.status == 404
    async with site.session.post(where, data=b"[]", headers=headers) as response:
        assert response.status == 400
    for wrong in ({}, {"Authorization": "Bearer wr\u00f6ng"}):
        async with site.session.post(where, json={"to": WEB}, headers=wrong) as response:
            assert response.status == 401


async def test_the_start_page_shows_every_service_with_its_state_and_opens_it(site: Site) -> None:
    await site.client.create(builtin.Ingress, ingress("lost", "demo", "/lost", "nobody"))
    await site.until(lambda: served(site, "Ingress/demo/lost"))
    home = await site.log_in()
    status, text = await site.get(f"{home}/", **HTML)
    assert status == 200
    assert "Service nobody does not exist in namespace demo." in text
    assert text.index("<h2>lost</h2>") < text.index("<h2>web</h2>") < text.index("Ready.")
    form = re.search(r'name="form" value="([0-9a-f]+)"', text)
    assert form is not None
    sent = {"form": form[1], "to": WEB}
    async with site.session.post(
        f"{home}/_modelyard/open", data=sent, headers={"Origin": home}, allow_redirects=False
    ) as response:
        link = response.headers["Location"]
    assert (await site.get(link))[0] == 303
    assert "|Bearer for-demo-web|" in (await site.get(link.partition("/_modelyard")[0] + "/app"))[1]


async def test_only_our_own_form_opens_a_service_or_logs_out(site: Site) -> None:
    origin, home = await site.log_in(WEB), await site.log_in()
    form = re.search(r'name="form" value="([0-9a-f]+)"', (await site.get(f"{home}/", **HTML))[1])
    assert form is not None
    good = {"form": form[1], "to": WEB}
    for place in ("open", "logout"):
        for data, headers in (
            (good, {"Origin": origin}),
            (good, {}),
            ({**good, "form": "0" * 64}, {"Origin": home}),
            ({"to": WEB}, {"Origin": home}),
        ):
            async with site.session.post(
                f"{home}/_modelyard/{place}", data=data, headers=headers, allow_redirects=False
            ) as response:
                assert response.status == 403, (place, data, headers)
    assert (await site.get(f"{home}/_modelyard/logout", **HTML))[0] == 200
    assert (await site.get(f"{home}/", **HTML))[0] == 200, "asking for the page logs nobody out"


async def test_logging_out_ends_the_logins_that_began_at_the_start_page(site: Site) -> None:
    home = await site.log_in()
    form = re.search(r'name="form" value="([0-9a-f]+)"', (await site.get(f"{home}/", **HTML))[1])
    assert form is not None
    data, headers = {"form": form[1], "to": WEB}, {"Origin": home}
    async with site.session.post(f"{home}/_modelyard/open", data=data, headers=headers) as response:
        origin = f"https://{response.url.host}:{response.url.port}"
    assert "|Bearer " in (await site.get(f"{origin}/app"))[1]
    async with site.session.post(f"{home}/_modelyard/logout", data=data, headers=headers) as response:
        assert response.status == 200
    assert (await site.get(f"{origin}/app"))[1] == "GET|/app|-|-|"
    assert (await site.get(f"{home}/", **HTML))[0] == 401


async def test_a_stranger_gets_a_page_that_says_how_to_log_in(site: Site) -> None:
    async with site.session.get(site.gateway.url + "/", headers=HTML) as response:
        text = await response.text()
        assert response.status == 401
        assert response.url.host == "modelyard.localhost"
        assert response.content_type == "text/html"
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "<code>modelyard url</code>" in text
    assert "web" not in re.sub("<style>.*</style>", "", text, flags=re.DOTALL), "it lists nothing"


async def test_a_program_gets_plain_text(site: Site) -> None:
    async with site.session.get("https://modelyard.localhost" + site.gateway.url[17:] + "/") as response:
        assert (response.status, response.content_type) == (401, "text/plain")
        assert "modelyard url" in await response.text()


async def test_an_unknown_path_lists_nothing(site: Site) -> None:
    for headers in ({}, HTML):
        status, text = await site.get("/nope", **headers)
        assert status == 404
        assert "/app" not in text


async def test_a_stranger_at_a_service_that_wants_to_know_its_callers_is_told_how_to_log_in(site: Site) -> None:
    status, text = await site.get("/app/private", **HTML)
    assert (status, "<code>modelyard url web</code>" in text) == (401, True)
    assert await site.get("/app/private") == (401, "who are you?"), "a program gets the service's own answer"


async def test_a_stranger_at_a_controllers_service_is_told_how_to_log_in(site: Site) -> None:
    parent = await site.client.create(builtin.ConfigMap, {"metadata": {"name": "x", "namespace": "demo"}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": parent["metadata"]["uid"], "controller": True}
    made = ingress("ours", "demo", "/ours")
    made["metadata"]["ownerReferences"] = [owner]
    await site.client.create(builtin.Ingress, made)
    await site.until(lambda: served(site, "Ingress/demo/ours"))
    async with site.session.get(site.gateway.url + "/ours/x?y=1", headers=HTML) as response:
        assert response.status == 401
        assert response.url.path_qs == "/ours/x?y=1"
        assert str(response.url.host).startswith("ours-")
        assert "modelyard url ours" in await response.text()
    assert (await site.get("/ours"))[0] == 200, "a program goes through to the service"


async def test_a_backend_is_not_told_by_a_client_where_a_request_comes_from(site: Site) -> None:
    forged = {
        "X-Forwarded-For": "10.0.0.1",
        "X_Forwarded_For": "10.0.0.1",
        "X-Forwarded-Proto": "http",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Prefix": "/evil",
        "Forwarded": "for=10.0.0.1",
        "X-Real-IP": "10.0.0.1",
        "X-Remote-User": "system:admin",
    }
    async with site.session.get(site.gateway.url + "/app/headers", headers=forged) as response:
        seen = await response.json()
    found = {name: seen[name] for name in seen if name.replace("_", "-") in {key.lower() for key in forged}}
    host = site.gateway.url.removeprefix("https://")
    assert found == {"x-forwarded-for": "127.0.0.1", "x-forwarded-proto": "https", "x-forwarded-host": host}


async def test_a_service_sees_its_one_address_whichever_origin_the_browser_uses(site: Site) -> None:
    origin = await site.log_in(WEB)
    headers = {"Origin": origin, "Referer": f"{origin}/app/x"}
    async with site.session.get(f"{origin}/app/headers", headers=headers) as response:
        seen = await response.json()
    public = site.gateway.url
    assert (seen["host"], seen["origin"], seen["referer"]) == (public[8:], public, f"{public}/app/x")


async def test_a_backend_can_replace_no_login_and_set_nothing_for_the_whole_host(site: Site) -> None:
    cookie = cookie_name(int(site.gateway.url.rpartition(":")[2]))
    async with site.session.get(f"{site.gateway.url}/app/hostile?cookie={cookie}") as response:
        found = {name.lower() for name in response.headers}
    assert "x-own" in found
    assert not found & {"set-cookie", "strict-transport-security", "service-worker-allowed"}


async def test_a_name_that_others_lead_here_is_refused(site: Site) -> None:
    port = site.gateway.url.rpartition(":")[2]
    assert (await site.get(f"https://evil.example:{port}/app"))[0] == 421
    await site.client.create(builtin.Ingress, ingress("named", "demo", "/named", host="app.example"))
    await site.until(lambda: served(site, "Ingress/demo/named"))
    assert (await site.get(f"https://app.example:{port}/named"))[0] == 200


async def test_websockets_pass_through(site: Site) -> None:
    origin = await site.log_in(WEB)
    async with site.session.ws_connect(f"{origin}/app/ws", protocols=("chat",), origin=origin) as ws:
        assert ws.protocol == "chat"
        await ws.send_str("hello")
        assert await ws.receive_str() == "Bearer for-demo-web hello"
    with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
        await site.session.ws_connect(f"{origin}/app/ws", origin="https://evil.example")


@pytest.mark.parametrize(("path", "host"), [("/app", ""), ("/app/api", ""), ("/app", "localhost")])
async def test_nobody_takes_a_path_of_another_namespace(site: Site, path: str, host: str) -> None:
    await site.client.create(builtin.Ingress, ingress("thief", "other", path, "thief", host))
    await site.publish("thief", "other")

    async def told() -> bool:
        events = (await site.client.list(builtin.Event, "other")).items
        return any(
            event["involvedObject"]["name"] == "thief" and "Ingress/demo/web has it" in event["message"]
            for event in events
        )

    await site.until(told)
    assert (await site.get("/app/api"))[0] == 200
    assert site.gateway.doors.link("Ingress/other/thief") is not None
    home = await site.log_in()
    assert "not served: " in (await site.get(f"{home}/", **HTML))[1]
    assert not (await site.client.get(builtin.Ingress, "other", "thief"))["status"]["loadBalancer"].get("ingress")


async def conditions(site: Site, namespace: str, name: str) -> dict[str, tuple[str, str]]:
    found = await site.client.get(builtin.HTTPRoute, namespace, name)
    parents = (found.get("status") or {}).get("parents") or [{}]
    return {each["type"]: (each["status"], each["reason"]) for each in parents[0].get("conditions") or ()}


async def test_a_second_route_for_a_path_is_told_so_in_its_status(site: Site) -> None:
    await site.client.create(builtin.HTTPRoute, http_route("late", "other", "/app", {"name": "web"}))

    async def refused() -> bool:
        return (await conditions(site, "other", "late")).get("Accepted") == ("False", "PathTaken")

    await site.until(refused)
    await site.client.delete(builtin.Ingress, "demo", "web")

    async def accepted() -> bool:
        return (await conditions(site, "other", "late")).get("Accepted") == ("True", "Accepted")

    await site.until(accepted)


async def test_an_invalid_expression_is_reported_and_harms_no_other_request(site: Site) -> None:
    route = http_route("odd", "demo", "/odd", {"name": "web"})
    header = {"type": "RegularExpression", "name": "User-Agent", "value": "a{2,1}"}
    wrong: list[Object] = [{"path": {"type": "RegularExpression", "value": "/a(b"}}, {"headers": [header]}]
    route["spec"]["rules"][0]["matches"] += wrong
    await site.client.create(builtin.HTTPRoute, route)

    async def partly() -> bool:
        return (await conditions(site, "demo", "odd")).get("PartiallyInvalid") == ("True", "UnsupportedValue")

    await site.until(partly)
    assert (await site.get("/odd"))[0] == 200
    assert (await site.get("/nobody-serves-this"))[0] == 404
    (parent,) = (await site.client.get(builtin.HTTPRoute, "demo", "odd"))["status"]["parents"]
    (message,) = (each["message"] for each in parent["conditions"] if each["type"] == "PartiallyInvalid")
    assert "path /a(b is not a valid regular expression" in message
    assert "header User-Agent a{2,1} is not a valid regular expression" in message
    route["spec"]["rules"][0]["matches"] = wrong
    await site.client.patch(builtin.HTTPRoute, "demo", "odd", {"spec": route["spec"]})

    async def refused() -> bool:
        return (await conditions(site, "demo", "odd")).get("Accepted") == ("False", "UnsupportedValue")

    await site.until(refused)


async def test_a_route_leads_to_another_namespace_only_with_its_grant(site: Site) -> None:
    route = http_route("cross", "demo", "/cross", {"name": "web", "namespace": "other"})
    await site.client.create(builtin.HTTPRoute, route)

    async def refused() -> bool:
        return (await conditions(site, "demo", "cross")).get("ResolvedRefs") == ("False", "RefNotPermitted")

    await site.until(refused)
    assert (await site.get("/cross"))[0] == 500
    source = {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "demo"}
    grant = {
        "apiVersion": builtin.ReferenceGrant.api_version,
        "kind": "ReferenceGrant",
        "metadata": {"name": "g", "namespace": "other"},
        "spec": {"from": [source], "to": [{"group": "", "kind": "Service", "name": "web"}]},
    }
    await site.client.create(builtin.ReferenceGrant, grant)

    async def resolved() -> bool:
        return (await conditions(site, "demo", "cross")).get("ResolvedRefs") == ("True", "ResolvedRefs")

    await site.until(resolved)
    assert (await site.get("/cross"))[0] == 200


async def test_a_route_to_a_service_that_is_not_there_says_so(site: Site) -> None:
    await site.client.create(builtin.HTTPRoute, http_route("lost", "demo", "/lost", {"name": "later"}))

    async def lost() -> bool:
        return (await conditions(site, "demo", "lost")).get("ResolvedRefs") == ("False", "BackendNotFound")

    await site.until(lost)
    await site.publish("later", "demo")

    async def found() -> bool:
        return (await conditions(site, "demo", "lost")).get("ResolvedRefs") == ("True", "ResolvedRefs")

    await site.until(found)


async def test_a_backend_without_ready_endpoints_is_503_with_its_name(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelyard.local.network.gateway._HOLD", 0.1)
    await site.client.delete(builtin.EndpointSlice, "demo", "web-1")

    async def unready() -> bool:
        return (await site.get("/app"))[0] == 503

    await site.until(unready)
    assert (await site.get("/app"))[1] == "web is not ready. No pod of Service web is ready yet.\n"


async def test_an_ingress_says_where_it_is_served(site: Site) -> None:
    port = int(site.gateway.url.rpartition(":")[2])
    expected = [{"hostname": "localhost", "ports": [{"port": port, "protocol": "TCP"}]}]

    async def says() -> bool:
        found = await site.client.get(builtin.Ingress, "demo", "web")
        return bool(((found.get("status") or {}).get("loadBalancer") or {}).get("ingress") == expected)

    await site.until(says)


def test_sessions_end_and_codes_are_good_once() -> None:
    now = [0.0]
    logins = Logins(lambda: now[0])
    target = Target("Ingress/a/b", "1")
    code = logins.issue(target)
    session = logins.redeem(code, target)
    assert session is not None
    assert logins.find(session, target) is not None
    assert logins.find(session, Target("Ingress/a/b", "2")) is None
    assert logins.redeem(code, target) is None
    late = logins.issue(target)
    now[0] = 700.0
    assert logins.redeem(late, target) is None
    now[0] = 13 * 3600.0
    assert logins.find(session, target) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("a=1; __Host-modelyard-8443=x; b=2", "a=1; b=2"),
        ("__Host-modelyard-8443=x", None),
        ("a=1; __Host-modelyard-9000=x", "a=1"),
        ("a=1", "a=1"),
    ],
)
def test_the_backend_does_not_see_our_cookie(header: str, expected: str | None) -> None:
    assert without_session(header) == expected
