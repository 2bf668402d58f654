"""Whatever a model says, the events of its answer add up to the items of its answer."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from server.choice import Piece
from server.responses.answer import Answer
from server.responses.namespaces import Namespaces
from server.tools.parser import ToolDelta

TEXT = st.text("ab ", max_size=4)


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    """Thoughts, then text and calls in any mixture, cut anywhere; ends with a reason."""
    found = [Piece(reasoning=text) for text in draw(st.lists(TEXT, max_size=3))]
    num_calls, call_is_open = 0, False
    for _ in range(draw(st.integers(0, 5))):
        piece = Piece()
        if call_is_open and draw(st.booleans()):
            piece.calls.append(ToolDelta(num_calls - 1, draw(TEXT)))
        piece.content = draw(TEXT)
        num_new = draw(st.integers(0, 2))
        call_is_open = num_new > 0 or (call_is_open and not piece.content)
        for _ in range(num_new):
            piece.calls.append(ToolDelta(num_calls, draw(TEXT), f"call_{num_calls}", "f"))
            num_calls += 1
        found.append(piece)
    return [*found, Piece(finish_reason=draw(st.sampled_from(["stop", "tool_calls", "length"])))]


def replayed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items as a client that believes nothing but deltas would build them."""
    items: list[dict[str, Any]] = []
    done: set[int] = set()
    for event in events:
        index = event["output_index"]
        assert index not in done, "an item that is done says no more"
        match event["type"].removeprefix("response."):
            case "output_item.added":
                assert index == len(items) == len(done), "one item at a time"
                items.append({"id": event["item"]["id"], "said": ""})
            case "output_item.done":
                done.add(index)
            case name:
                assert event["item_id"] == items[index]["id"]
                if name.endswith(".delta"):
                    items[index]["said"] += event["delta"]
                elif name != "content_part.added" and name != "content_part.done":
                    assert event.get("text", event.get("arguments")) == items[index]["said"]
    assert len(done) == len(items)
    return items


@given(pieces())
def test_events_add_up_to_the_items(found: list[Piece]) -> None:
    answer = Answer(Namespaces(()))
    events = [event for piece in found for event in answer.feed(piece)]
    items = replayed(events)
    output = answer.output()
    assert [item["id"] for item in items] == [item["id"] for item in output]
    for item, final in zip(items, output, strict=True):
        said = final["arguments"] if final["type"] == "function_call" else final["content"][0]["text"]
        assert said == item["said"]

    def joined(kind: str) -> str:
        return "".join(item["content"][0]["text"] for item in output if item["type"] == kind)

    assert joined("message") == "".join(piece.content for piece in found)
    assert joined("reasoning") == "".join(piece.reasoning for piece in found)
    arguments = [item["arguments"] for item in output if item["type"] == "function_call"]
    deltas = [call for piece in found for call in piece.calls]
    assert arguments == [
        "".join(call.arguments for call in deltas if call.number == number)
        for number in range(len(arguments))
    ]
    assert len(arguments) == len({call.number for call in deltas})
    is_cut = found[-1].finish_reason == "length"
    assert answer.status == ("incomplete" if is_cut else "completed")
    assert {item["status"] for item in output[:-1]} <= {"completed"}
    assert all(item["status"] == answer.status for item in output[-1:])
