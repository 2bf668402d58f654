"""Finds the end of a JSON object that comes in pieces."""


class ObjectScanner:
    """Counts braces outside strings. Feed it text from the object's opening brace on."""

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = False
        self.in_string = False
        self.complete = False

    def scan(self, text: str) -> int:
        """How many characters of `text` belong to the object."""
        for position, char in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self.in_string:
                self._escaped = char == "\\"
                self.in_string = char != '"'
            elif char == '"':
                self.in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.complete = True
                    return position + 1
        return len(text)
