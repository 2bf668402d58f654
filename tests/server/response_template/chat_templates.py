"""Chat templates in the manners of published models, as far as they write tools, calls and their results."""

_BEGIN = "{%- for m in messages %}{%- if m.role == 'user' %}"
_ELSE = "{%- elif m.tool_calls is defined and m.tool_calls %}"

LISTED = (
    "{%- if tools %}[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]{%- endif %}"
    + _BEGIN
    + "[INST] {{ m.content }}[/INST]"
    + _ELSE
    + """[TOOL_CALLS] [{%- for call in m.tool_calls %}
    {%- if call.id is not defined or call.id | length != 9 %}
    {{- raise_exception("ids have 9 characters") }}{%- endif %}
    {{- '{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}
    {{- ', "id": "' + call.id + '"}' }}{%- if not loop.last %}, {% endif %}{%- endfor %}]</s>"""
    "{%- elif m.role == 'tool' %}"
    """{%- if m.tool_call_id | length != 9 %}{{ raise_exception("ids have 9 characters") }}{%- endif %}
    {{- '[TOOL_RESULTS]' + m.content + m.tool_call_id + '[/TOOL_RESULTS]' }}"""
    "{%- else %} {{ m.content }}</s>{%- endif %}{%- endfor %}"
)
"""All calls in one list of JSON."""

NAMED = (
    "{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{%- endif %}"
    + _BEGIN
    + "[INST]{{ m.content }}[/INST]"
    + _ELSE
    + """{%- for call in m.tool_calls %}
    {{- '[TOOL_CALLS]' + call.function.name + '[ARGS]' + call.function.arguments | tojson }}
    {%- endfor %}</s>"""
    "{%- else %}{{ m.content }}</s>{%- endif %}{%- endfor %}"
)
"""Names and arguments."""

NAMED_WITH_THOUGHTS = NAMED.replace(
    "{%- else %}", "{%- elif m.thinking %}[THINK]{{ m.thinking }}[/THINK]{%- else %}"
)

NAMED_WITH_IDS = NAMED.replace("+ '[ARGS]'", "+ '[CALL_ID]' + call.id + '[ARGS]'")

OBJECT = (
    """{%- if tools %}Answer with {"name": the function, "parameters": an object of its arguments}.
{{ tools | tojson(indent=4) }}{%- endif %}"""
    + _BEGIN
    + "<|start_header_id|>user<|end_header_id|>\n\n{{ m.content }}<|eot_id|>"
    + _ELSE
    + """<|start_header_id|>assistant<|end_header_id|>\n\n
    {%- if m.tool_calls | length != 1 %}{{ raise_exception("one call at a time") }}{%- endif %}
    {%- set call = m.tool_calls[0].function %}
    {{- '{"name": "' + call.name + '", ' }}
    {{- '"parameters": ' }}
    {{- call.arguments | tojson + '}' }}<|eot_id|>"""
    "{%- else %}{{ m.content }}<|eot_id|>{%- endif %}{%- endfor %}"
)
"""One object."""

PARAMETERS = (
    "{%- if tools %}<tools>{{ tools | tojson }}</tools>{%- endif %}"
    + _BEGIN
    + "<|im_start|>user\n{{ m.content }}<|im_end|>\n"
    + _ELSE
    + """<|im_start|>assistant\n{%- for call in m.tool_calls %}
    {{- '\n<tool_call>\n<function=' + call.function.name + '>\n' }}
    {%- for name, value in call.function.arguments | items %}
    {{- '<parameter=' + name + '>\n' }}
    {{- value if value is string else value | tojson }}
    {{- '\n</parameter>\n' }}
    {%- endfor %}
    {{- '</function>\n</tool_call>' }}{%- endfor %}<|im_end|>\n"""
    "{%- else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{%- endif %}"
)
"""A tag for each argument."""

PARAMETERS_WITH_THOUGHTS = PARAMETERS.replace(
    "<|im_start|>assistant\n{%- endif %}", "<|im_start|>assistant\n<think>\n{%- endif %}"
)

TAGGED = (
    "{%- if tools %}<tools>{{ tools | tojson }}</tools>{%- endif %}"
    + _BEGIN
    + "<|im_start|>user\n{{ m.content }}<|im_end|>\n"
    + _ELSE
    + """{%- for call in m.tool_calls %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{%- endfor %}{%- else %}{{ m.content }}{%- endif %}{%- endfor %}"""
)
"""An object between tags."""
