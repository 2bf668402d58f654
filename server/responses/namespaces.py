"""Functions in namespaces under the flat names that chat templates know, and back."""

from collections.abc import Sequence

from server.schema.chat import Function, Tool
from server.schema.responses import FunctionTool, NamespaceTool

JOINT = "__"


class Namespaces:
    """The tools of one request. `flat`: as chat has them."""

    def __init__(self, tools: Sequence[FunctionTool | NamespaceTool]) -> None:
        self.flat: list[Tool] = []
        self._parts: dict[str, tuple[str, str]] = {}
        for tool in tools:
            if isinstance(tool, FunctionTool):
                self.flat.append(_tool(tool, tool.name, tool.description))
            else:
                self._flatten(tool)

    def parts(self, flat_name: str) -> tuple[str | None, str]:
        """The namespace, None for a function outside of any, and the name in it."""
        return self._parts.get(flat_name, (None, flat_name))

    def _flatten(self, namespace: NamespaceTool) -> None:
        for function in namespace.tools:
            name = flat_name(namespace.name, function.name)
            self._parts[name] = namespace.name, function.name
            about = "\n".join(text for text in (namespace.description, function.description) if text)
            self.flat.append(_tool(function, name, about))


def flat_name(namespace: str | None, name: str) -> str:
    return f"{namespace}{JOINT}{name}" if namespace else name


def _tool(tool: FunctionTool, name: str, description: str | None) -> Tool:
    # Checked already, piece by piece; joined, a name may be longer than one that is sent.
    function = Function.model_construct(
        name=name, description=description, parameters=tool.parameters, strict=tool.strict
    )
    return Tool(type="function", function=function)
