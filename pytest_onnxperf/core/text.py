"""Names out of a file, made fit to be shown: in a terminal and in a trace viewer."""


def printable(text: str) -> str:
    r"""Return a text with what a terminal would act on written out.

    >>> printable("a\tb")
    'a\\tb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
