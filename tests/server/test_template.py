"""Templates render as transformers renders them, and within limits."""

import time
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from server.template import ChatTemplate, TemplateError
from tests.server.checkpoints import CHATML, STRINGS_ONLY

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be <brief> & 'kind'."},
    {"role": "user", "content": " Hello “world”\n"},
    {"role": "assistant", "content": "Hi"},
]
TOOLS = [
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "b": 1, "a": "<é>"}}}
]

FEATURES = {
    "chatml": CHATML,
    "strings": STRINGS_ONLY,
    "loop controls": """{% for m in messages %}{% if loop.index == 2 %}{% continue %}{% endif %}
{{ m.content }}{% break %}{% endfor %}""",
    "white space": """{% for m in messages %}
    {% if true %}
  {{ m.role }}
    {% endif %}
{% endfor %}
""",
    "json": """{{ tools | tojson }}{{ tools | tojson(indent=2) }}
{{ messages | tojson(ensure_ascii=true, sort_keys=true) }}""",
    "generation": """{% for m in messages %}
{% generation %}{{ m.content }}{% endgeneration %}
{% endfor %}""",
    "namespace": """{% set ns = namespace(n=0) %}
{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}""",
    "macro": """{% macro say(m) -%} [{{ m.role }}] {%- endmacro %}
{% for m in messages %}{{ say(m) }}{% endfor %}""",
    "date": "{{ strftime_now('%Y') }}",
    "documents": "{% if documents is none %}none{% endif %}{{ documents }}",
    "variables": "{{ bos_token }}{{ undefined_thing }}{% if thinking is defined %}{{ thinking }}{% endif %}",
    "format": """{{ '%s-%03d' % ('a', 7) }}{{ 'ab' * 3 }}{{ messages[1:] | length }}
{{ messages | map(attribute='role') | join(',') }}{{ dict(a=1) }}""",
}


@pytest.mark.parametrize("name", FEATURES)
def test_equal_to_transformers(name: str) -> None:
    kwargs = {"thinking": True}
    expected, _ = render_jinja_template(
        [MESSAGES],
        tools=TOOLS,
        chat_template=FEATURES[name],
        add_generation_prompt=True,
        bos_token="<s>",
        eos_token="</s>",
        **kwargs,
    )
    template = ChatTemplate(FEATURES[name], {"bos_token": "<s>", "eos_token": "</s>"})
    assert template.render(MESSAGES, TOOLS, kwargs=kwargs) == expected[0]


def test_variables_are_stronger_than_special_tokens_but_not_than_messages() -> None:
    template = ChatTemplate("{{ bos_token }}{{ messages | length }}", {"bos_token": "<s>"})
    assert template.render(MESSAGES, kwargs={"bos_token": "x", "messages": []}) == "x3"


def test_refusal_of_the_template_reaches_the_client() -> None:
    template = ChatTemplate("{{ raise_exception('Roles must alternate.') }}")
    with pytest.raises(TemplateError, match=r"^Roles must alternate\.$"):
        template.render(MESSAGES)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content.foo.bar }}",
        "{{ 1 / 0 }}",
        "{{ messages | join(1, 2, 3) }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_breaking_templates_say_nothing_of_the_inside(source: str) -> None:
    with pytest.raises(TemplateError, match=r"^The model's chat template can't render these messages\.$"):
        ChatTemplate(source).render(MESSAGES)


def test_source_that_does_not_compile() -> None:
    with pytest.raises(TemplateError, match="does not compile"):
        ChatTemplate("{% for %}")


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{{ 'x' * 10000000000 }}",
        "{{ 10 ** 10000000000 }}",
    ],
)
def test_time_and_size_are_bounded(source: str) -> None:
    begin = time.monotonic()
    with pytest.raises(TemplateError):
        ChatTemplate(source, timeout_s=0.3, max_characters=1 << 20).render(MESSAGES)
    assert time.monotonic() - begin < 5
