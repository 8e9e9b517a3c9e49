"""input() without a terminal."""

_original_input = input


def ask(prompt="", /):
    """Read a line from standard input, which is what the call was given."""
    try:
        return _original_input(prompt)
    except EOFError:
        raise EOFError(
            "input() found the end of standard input: nobody can type here; "
            "what the code is to read has to be given with the call"
        ) from None
