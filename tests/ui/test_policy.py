"""What the page may load and run, as its answers say it."""

import asyncio
import re
from types import SimpleNamespace
from typing import Any

from jinja2 import DictLoader, Environment

from latentloom.ui.access.policy import NONCE, mark_scripts
from support.raw_requests import Answer, Asked, ask


def test_the_page_says_what_it_may_run_and_only_its_own_scripts_bear_the_nonce(app: Any) -> None:
    headers = [ask_one(app).headers for _ in range(2)]
    policies = [each["content-security-policy"] for each in headers]
    assert headers[0]["cross-origin-resource-policy"] == "same-origin"
    assert policies[0] != policies[1]
    rules = {rule.split()[0]: rule.split()[1:] for rule in policies[0].split("; ")}
    assert rules["script-src"][0] == "'self'" and rules["script-src"][2:] == ["'unsafe-eval'"]
    assert re.fullmatch(r"'nonce-[A-Za-z0-9_-]{20,}'", rules["script-src"][1])
    assert rules["connect-src"] == rules["frame-ancestors"] == ["'self'"]
    assert rules["object-src"] == rules["base-uri"] == ["'none'"]
    assert not any("*" in source or ":/" in source or source == "https:" for rule in rules.values() for source in rule)


def ask_one(app: Any) -> Answer:
    return asyncio.run(ask(app, Asked()))


def rendered(source: str, **data: Any) -> str:
    environment = Environment(loader=DictLoader({"page": source}))
    mark_scripts(environment, script="loom.js?v=1", styles="loom.css?v=1", parts=["part.js"], asked=["loom/start"])
    request = SimpleNamespace(scope={NONCE: "N"})
    return environment.get_template("page").render(request=request, **data)


def test_a_script_in_data_bears_no_nonce() -> None:
    source = '<base href="./" /><script src="a.js"></script><script>x = {{ data }}</script>'
    assert rendered(source, data="</script><script>evil()</script>") == (
        '<script nonce="N" src="a.js"></script><script nonce="N">x = </script><script>evil()</script></script>'
    )


def test_our_own_files_are_named_in_the_head_and_not_on_the_login_page() -> None:
    page = rendered("<head></head>", config={})
    assert (
        'href="loom.css?v=1"' in page
        and '<link rel="modulepreload" href="part.js">' in page
        and 'type="module" async src="loom.js?v=1"></script>' in page
        and '<link rel="preload" as="fetch" crossorigin href="loom/start">' in page
    )
    assert "loom" not in rendered("<head></head>", config={"auth_required": True})


def test_gradio_begins_after_our_script_and_at_once_on_the_login_page() -> None:
    source = '<head></head><script type="module" crossorigin src="./assets/index.js"></script>'
    assert '<script nonce="N" type="loom/held" crossorigin src="./assets/index.js">' in rendered(source, config={})
    login = rendered(source, config={"auth_required": True})
    assert login == '<head></head><script nonce="N" type="module" crossorigin src="./assets/index.js"></script>'
