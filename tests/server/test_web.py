"""The page: served without a key and under a strict policy, complete, and nothing of it from elsewhere."""

import re

import httpx
import pytest

from engine.messages import EngineStats
from server.routes.web import WEB
from tests.server.fakes import Bench
from tests.server.test_auth import ask

FILES = sorted(path.name for path in WEB.iterdir())
LOCKED = Bench(api_key=("secret",))


def get(path: str) -> httpx.Response:
    """From a server that wants a key, without one."""
    return ask(LOCKED, "GET", path)


def policy(response: httpx.Response) -> dict[str, list[str]]:
    rules = (rule.split() for rule in response.headers["content-security-policy"].split(";"))
    return {name: sources for name, *sources in rules}


@pytest.mark.parametrize("path", ["/", *(f"/web/{name}" for name in FILES)])
def test_every_file_is_public_and_under_the_policy(path: str) -> None:
    response = get(path)
    assert response.status_code == 200
    assert response.headers["x-content-type-options"] == "nosniff"
    rules = policy(response)
    assert rules["default-src"] == ["'none'"]
    assert {name for name, sources in rules.items() if "'none'" not in sources} == {
        *("script-src", "style-src", "connect-src", "img-src", "media-src"),
    }
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == ["'self'"]
    assert set(rules["img-src"] + rules["media-src"]) <= {"'self'", "blob:", "data:"}
    assert response.headers["permissions-policy"] == "camera=(self), microphone=(self)"


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("main.js", "text/javascript"), ("base.css", "text/css"), ("icon.svg", "image/svg+xml")],
)
def test_files_have_the_types_that_nosniff_needs(name: str, media_type: str) -> None:
    assert get(f"/web/{name}").headers["content-type"].split(";")[0] == media_type


def test_an_unchanged_file_is_not_sent_again() -> None:
    etag = get("/web/main.js").headers["etag"]
    assert ask(LOCKED, "GET", "/web/main.js", headers={"if-none-match": etag}).status_code == 304


@pytest.mark.parametrize(
    "value",
    [
        "bytes",
        "bytes=",
        "bytes=a-b",
        "lines=1-2",
        "bytes=5-2",
        "bytes=999999999-",
        "bytes=0-0",
        "bytes=0-1,3-4",
    ],
)
@pytest.mark.parametrize("path", ["/", "/web/main.js"])
def test_a_file_is_sent_whole_whatever_part_of_it_is_asked_for(path: str, value: str) -> None:
    response = ask(LOCKED, "GET", path, headers={"range": value})
    assert response.status_code == 200
    assert response.content == get(path).content
    assert response.headers["accept-ranges"] == "none"


@pytest.mark.parametrize("path", ["/", "/web/main.js"])
def test_other_methods_are_405_in_openais_form(path: str) -> None:
    response = ask(LOCKED, "POST", path)
    assert response.status_code == 405
    assert response.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/web/none.js", "/web/", "/web/%2e%2e/app.py", "/web/..%2fapp.py"])
def test_nothing_else_is_served(path: str) -> None:
    assert get(path).status_code in (401, 404)


def test_all_that_the_files_refer_to_exists() -> None:
    referred = set()
    for name in FILES:
        text = (WEB / name).read_text("utf-8")
        if name.endswith(".html"):
            referred |= set(re.findall(r'(?:src|href)="([^"]+)"', text))
        if name.endswith(".js"):
            referred |= {f"/web/{file}" for file in re.findall(r'from "\./([^"]+)"', text)}
    assert referred == {f"/web/{name}" for name in FILES if name != "index.html"}, "all there, none forgotten"


@pytest.mark.parametrize("name", FILES)
def test_nothing_comes_from_elsewhere(name: str) -> None:
    text = (WEB / name).read_text("utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?://|[\"'(]//|@import", text)


@pytest.mark.parametrize("name", FILES)
def test_no_text_becomes_html_or_code(name: str) -> None:
    text = (WEB / name).read_text("utf-8")
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|srcdoc"
    )
    assert not re.search(forbidden, text)
    assert not re.search(r"<script(?! type=\"module\" src=)|<style|\sstyle=|\son\w+=\"", text), "inline"


def test_every_element_that_the_scripts_ask_for_is_on_the_page() -> None:
    ids = set(re.findall(r'\bid="([^"]+)"', (WEB / "index.html").read_text("utf-8")))
    asked = set()
    for path in WEB.glob("*.js"):
        asked |= set(re.findall(r'\$\("([^"]+)"\)', path.read_text("utf-8")))
    assert asked <= ids


def test_every_field_has_a_label() -> None:
    page = (WEB / "index.html").read_text("utf-8")
    within = "".join(re.findall(r"<label>.*?</label>|<label class.*?</label>", page, re.DOTALL))
    labelled = set(re.findall(r'<label[^>]* for="([^"]+)"', page)) | set(re.findall(r'id="([^"]+)"', within))
    fields = set(re.findall(r'<(?:input|select|textarea) id="([^"]+)"', page))
    assert fields - labelled == {"files"}, "which is hidden behind its button"


@pytest.mark.parametrize("name", FILES)
def test_files_stay_small(name: str) -> None:
    assert len((WEB / name).read_text("utf-8").splitlines()) < 200


def test_stats_want_a_key() -> None:
    assert get("/stats").status_code == 401


def test_stats_are_the_engines() -> None:
    bench = Bench(api_key=("secret",))
    bench.engine.stats = EngineStats(num_blocks=100, num_free_blocks=90, num_cached_blocks=7)
    stats = ask(bench, "GET", "/stats", headers={"authorization": "Bearer secret"}).json()
    assert set(stats) == {*EngineStats.__struct_fields__, "block_size", "encoder_cache_bytes"}
    assert (stats["num_blocks"], stats["num_free_blocks"], stats["num_cached_blocks"]) == (100, 90, 7)
    assert (stats["block_size"], stats["encoder_cache_bytes"]) == (16, 1 << 20)


def test_the_page_asks_for_no_number_that_stats_lacks() -> None:
    stats = ask(Bench(), "GET", "/stats").json()
    asked = set(re.findall(r"\bnow\.(\w+)", (WEB / "cache.js").read_text("utf-8")))
    assert asked <= set(stats)
    assert "num_cached_blocks" in asked
