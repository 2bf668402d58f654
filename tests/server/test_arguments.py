"""Arguments of earlier calls in templates of every kind: an object, or text that is none."""

import json
from pathlib import Path
from typing import Any

import pytest

import models
from server.conversation import tool_call
from tests.checkpoints import TOOLS_TEMPLATE
from tests.server.checkpoints import CHATML
from tests.server.test_prompt import OURS, builder

CALLS = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}[%s]{% endfor %}{% endfor %}"
PACKAGE = Path(models.__file__).parent
TEMPLATES = {
    "as JSON": CHATML,
    "of the checkpoints in tests": TOOLS_TEMPLATE,
    "smol-omni": (PACKAGE / "smol_omni" / "chat_template.jinja").read_text(),
    "text as it is": CALLS.replace(
        "%s",
        "{% set a = c.function.arguments %}{% if a is string %}{{ a }}{% else %}{{ a | tojson }}{% endif %}",
    ),
    "by methods": CALLS.replace(
        "%s", "{% for n, v in c.function.arguments.items() %}{{ n }}={{ v }};{% endfor %}"
    ),
    "by filter": CALLS.replace(
        "%s", "{% for n, v in c.function.arguments | items %}{{ n }}={{ v }};{% endfor %}"
    ),
    "the whole call": CALLS.replace("%s", "{{ c.function | tojson }}"),
    "not at all": "{% for m in messages %}{{ m.content }}{% endfor %}",
}


@pytest.mark.parametrize("arguments", ["Bern", '{"city": "Be', '[1, "<|im_end|>"]', "null", '{"a": NaN}', ""])
@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_copes_with_arguments_that_are_no_object(name: str, arguments: str) -> None:
    shown = rendered(name, arguments)
    assert name == "not at all" or arguments in shown or json.dumps(arguments)[1:-1] in shown


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "not at all"])
def test_an_object_stays_one(name: str) -> None:
    shown = rendered(name, '{"city": "Bern"}')
    assert '{"city": "Bern"}' in shown or "city=Bern;" in shown


def rendered(name: str, arguments: str) -> str:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [tool_call("c", "f", arguments)]},
    ]
    ids = builder(template=TEMPLATES[name]).render(messages).sequence.ids
    return OURS["byte level"].decode(ids, skip_special_tokens=False)
