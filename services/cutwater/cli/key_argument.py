"""A verb whose argument is a key: a key may begin with a dash, as -5 does."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

LONG = "--"


class KeyCommand(TyperCommand):
    """Takes a word with one dash for the key, unless it is one of the verb's options.

    A word with two dashes is an option, and refused with a suggestion where the verb has none of that name. A key
    that begins with two dashes stands behind `--`, as everywhere.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        taking = {name: _takes_a_word(one) for one in self.get_params(ctx) for name in one.opts}
        return super().parse_args(ctx, with_keys_last(args, taking))


def with_keys_last(words: list[str], options: dict[str, bool]) -> list[str]:
    """Return the same words with the keys behind a `--`, where a parser leaves their dashes alone.

    `options`: does the option of that name take the next word? Where that word is missing, the option comes last
    and no key: the parser then says what is missing.
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
