"""A command whose argument is a key, which may begin with a dash, as -5 does."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

LONG = "--"


class KeyCommand(TyperCommand):
    """A command that takes a word with one dash as the key, unless the word is one of its options.

    A word with two dashes is an option; an unknown one is refused with a suggestion. A key that begins with two
    dashes must follow `--`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        taking = {name: _takes_a_word(one) for one in self.get_params(ctx) for name in one.opts}
        return super().parse_args(ctx, with_keys_last(args, taking))


def with_keys_last(words: list[str], options: dict[str, bool]) -> list[str]:
    """Return the same words with the keys after a `--`, so that the parser ignores their dashes.

    `options`: for each option, whether it takes the next word. If that word is missing, the option is the last
    word and there is no key, so that the parser reports what is missing.
    """
    named, keys, left = list[str](), list[str](), iter(words)
    for word in left:
        if word == LONG:
            keys += left
            break
        if options.get(word, False):
            if (value := next(left, None)) is None:
                return [*named, word]
            named += [word, value]
        elif word in options or word.startswith(LONG):
            named.append(word)
        else:
            keys.append(word)
    return [*named, LONG, *keys]


def _takes_a_word(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not parameter.is_flag
