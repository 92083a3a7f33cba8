"""Names out of a file, made fit to be shown: in a terminal and in a trace viewer."""

from itertools import takewhile


def printable(text: str) -> str:
    r"""Return a text with what a terminal would act on written out.

    >>> printable("a\tb")
    'a\\tb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def reason(message: str) -> str:
    r"""Return in one line why a test failed or was skipped: what an error says, else the first paragraph.

    Args:
        message: pytest's of it, where `E` marks what an error says.

    >>> reason("def test_a():\n>   assert x\nE   assert False\n"), reason("nothing was\n  measured\n\nDo this")
    ('assert False', 'nothing was measured')
    """
    lines = message.strip().splitlines()
    raised = [line[1:].strip() for line in lines if line.startswith("E  ")]
    return raised[0] if raised else " ".join(line.strip() for line in takewhile(str.strip, lines))
