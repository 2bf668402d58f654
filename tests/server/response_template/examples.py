"""Response templates in the manners of several model families, with answers that they read."""

import json
from typing import Any, NamedTuple

CHATML = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "tool_calls": {
            "open_pattern": r"\s*<tool_call>",
            "close": "</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"\s*(?:<\|im_end\|>|<\|endoftext\|>)"},
    },
}
"""JSON between tags."""

TAGGED_PARAMETERS = {
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {
            "open_pattern": r"<tool_call>\s*<function=(?P<name>[^>\n]+)>",
            "close_pattern": r"</function>\s*</tool_call>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>",
                "value_parser": {"name": "json", "args": {"allow_non_json": True}},
            },
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {},
    },
}
"""One tag for each argument."""

CHANNELS = {
    "start_anchor": "<|start|>assistant",
    "fields": {
        "thinking": {"open": "<|channel|>analysis<|message|>", "close": ["<|end|>", "<|return|>"]},
        "tool_calls": {
            "open_pattern": r"<\|channel\|>commentary to=functions\.(?P<name>\w+).*?<\|message\|>",
            "close": "<|call|>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"open": "<|channel|>final<|message|>", "close": ["<|end|>", "<|return|>"]},
    },
}
"""Everything in a channel, nothing outside."""

ACTIONS = {
    "start_anchor": "<|CHATBOT_TOKEN|>",
    "fields": {
        "thinking": {"open": "<|START_THINKING|>", "close": "<|END_THINKING|>"},
        "content": {"open": "<|START_RESPONSE|>", "close": "<|END_RESPONSE|>"},
        "tool_calls": {
            "open": "<|START_ACTION|>",
            "close": "<|END_ACTION|>",
            "content": "json",
            "transform_each": True,
            "transform": {
                "type": "function",
                "function": {"name": "{tool_name}", "arguments": "{parameters}"},
            },
        },
    },
}
"""All calls in one list."""

LOOSE_JSON = {
    "start_anchor": ["<|turn>model\n", "<tool_response|>"],
    "fields": {
        "reasoning_content": {"open": "<|channel>thought\n", "close": "<channel|>"},
        "tool_calls": {
            "open_pattern": r"<\|tool_call>call:(?P<name>\w+)",
            "close": "<tool_call|>",
            "repeats": True,
            "content": "json",
            "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close": ["<turn|>", "<eos>"]},
    },
}
"""Keys without quotes, strings between marks of their own."""

PYTHON_CALLS = {
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<|calls|>",
            "close": "<|/calls|>",
            "content": "python-call-list",
            "transform_each": True,
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}},
        },
        "content": {"close": "<|im_end|>", "repeats": True, "join": "\n"},
    },
}
"""Calls as in Python."""

LINES = {
    "start_anchor": "A:",
    "fields": {
        "tool_calls": {
            "open_pattern": r"\[call (?P<name>\w+)\]",
            "close_pattern": r"\[end(?: of (?P<kind>\w+))?\]",
            "content": "kv-lines",
            "content_args": {"kv_sep": "=", "value_parser": {"name": "int"}},
            "transform": {"type": "{kind}", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"content_args": {"strip": False}},
    },
}
"""A line for each argument."""

ESCAPED = r"{\"a\": \"<tool_call>\"}"


class Example(NamedTuple):
    template: dict[str, Any]
    text: str
    prompt: str = ""


EXAMPLES = {
    "content alone": Example(CHATML, "  Hello there. <b> \n"),
    "content and its end": Example(CHATML, "Hello\n<|im_end|>\n<|endoftext|>"),
    "a thought": Example(CHATML, "<think>\nhm </think>\n\nYes < no"),
    "a thought begun by the prompt": Example(
        CHATML, "hm</think>Yes", "<|im_start|>assistant\nold<|im_end|><|im_start|>assistant\n<think>\n"
    ),
    "a thought that the prompt has closed": Example(
        CHATML, "Yes", "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    ),
    "calls": Example(
        CHATML,
        'Look.\n<tool_call>\n{"name": "f", "arguments": {"a": [1, "ü"]}}\n</tool_call>\n'
        '<tool_call>{"name": "g", "arguments": {}}</tool_call><|im_end|>',
    ),
    "a call without its end": Example(CHATML, '<tool_call>{"name": "f", "arguments": {"a": 1}}'),
    "a thought without its end": Example(CHATML, "<think>hm <|im_end"),
    "half of a mark": Example(CHATML, "a <tool_ca"),
    "tagged parameters": Example(
        TAGGED_PARAMETERS,
        "<think>t</think><tool_call>\n<function=f>\n<parameter=n>\n7\n</parameter>\n<parameter=s>\nBern\n"
        "</parameter>\n</function>\n</tool_call>",
    ),
    "tagged parameters to be cast": Example(
        TAGGED_PARAMETERS, "<tool_call><function=cast><parameter=s>x</parameter></function></tool_call>done"
    ),
    "channels": Example(
        CHANNELS,
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f "
        '<|constrain|>json<|message|>{"a": "b"}<|call|>',
        "<|start|>assistant",
    ),
    "a final channel": Example(CHANNELS, "<|channel|>final<|message|>Hello <|x|><|return|>"),
    "outside every channel": Example(CHANNELS, "lost<|channel|>final<|message|>kept<|end|>lost"),
    "actions": Example(
        ACTIONS,
        '<|START_THINKING|>t<|END_THINKING|><|START_ACTION|>[\n{"tool_call_id": "0", "tool_name": "f", '
        '"parameters": {"a": 1}}, {"tool_name": "g", "parameters": {}}\n]<|END_ACTION|>',
    ),
    "loose JSON": Example(
        LOOSE_JSON,
        '<|channel>thought\nhm<channel|>Hi<|tool_call>call:f{a:<|"|>x "y" {b:1}<|"|>,c:{d:2, e : [true]}}'
        "<tool_call|><turn|>",
    ),
    "calls as in Python": Example(
        PYTHON_CALLS,
        r"""one<|calls|>[f(a="b\n\u00fc\ud83d\ude00", c=[1, -2.5e1, {'x': None}], d=true), a.b-c()]"""
        "<|/calls|>two<|im_end|>",
    ),
    "joined": Example(PYTHON_CALLS, "one<|im_end|>two<|im_end|> <|im_end|>"),
    "lines": Example(LINES, "[call f]\na = 1\n\nnonsense\nb=2[end of function] after "),
}


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("f"), tool("g"), tool("a.b-c"), tool("cast", s={"type": "integer"})]


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
