"""Secrets taken out of text: those that are known, in each form that a log may give them, and what looks like one.

The known ones are exact. The patterns are for secrets that nobody named: a password in a URL, a header, a private
key. A pattern may take more than the secret; nothing that it takes is needed to understand an incident.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

MASK = "********"
SHA256_CHARS = 64
SHORT = 4
"""A secret of fewer characters is taken out only where it stands as a word: it is part of too many others."""
_NAMES = (
    "pass_?word|passwd|passphrase|secret|credential|private[-_]?key|access[-_]?key|api[-_]?key|snapshot[-_]?key"
    "|jaas|token|signature|webhook|(?<![a-z])(?:pwd|sig|pass)(?![a-z])"
)
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_SECRET_VARIABLE = re.compile(rf"^(?!PWD$).*(?:{_NAMES}|_KEY$|_AUTH$)", re.IGNORECASE)
_MILESTONE = r"g[0-9]+-[a-z0-9-]+:[0-9]+"
"""A milestone's token, which is public."""
_QUOTED = r"\"(?:[^\"\\]|\\.){0,8192}\"|'(?:[^'\\]|\\.){0,8192}'"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL), MASK),
    (re.compile(r"\A[A-Za-z0-9+/=\s]+-----END [A-Z ]{0,40}PRIVATE KEY-----"), MASK),
    (re.compile(r"://[^\s\"'<>]{0,4096}@"), f"://{MASK}@"),
    (
        re.compile(
            r"(authorization[\"']?\s{0,5}[=:]\s{0,5}[\"']?)(?:(?:bearer|basic|digest|negotiate)\s{1,5})?"
            r"[^\s\"',}]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b(bearer)\s{1,5}[\w.~+/=-]+", re.IGNORECASE), rf"\1 {MASK}"),
    (re.compile(r"\b(basic)\s{1,5}(?=[A-Za-z+/]*[0-9=])[\w+/]{4,}={0,2}", re.IGNORECASE), rf"\1 {MASK}"),
    (
        re.compile(
            rf"((?:{_NAMES})[\w.-]{{0,60}}\\?[\"']?\s{{0,5}}[=:]\s{{0,5}})"
            rf"(?![\"']?{_MILESTONE})({_QUOTED}|\\?[\"']?[^\s\"'&,;}}\])]+)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b[A-Z][A-Z0-9_]{0,60}_KEY\s{0,5}[=:]\s{0,5}[^\s\"',;]+"), MASK),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+"), MASK),
)


class Redactor:
    """Takes secrets out of texts. `secrets`: the values that are known; empty ones are ignored."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        # The longest first: one may be a part of another.
        self._known = sorted((one for one in forms if len(one) >= SHORT), key=len, reverse=True)
        short = sorted(re.escape(one) for one in forms if len(one) < SHORT)
        self._short = re.compile(rf"(?<!\w)(?:{'|'.join(short)})(?!\w)") if short else None

    def redact(self, text: str) -> str:
        """Return the text without secrets."""
        for secret in self._known:
            text = text.replace(secret, MASK)
        if self._short:
            text = self._short.sub(MASK, text)
        for pattern, mask in _PATTERNS:
            text = pattern.sub(mask, text)
        return text

    def redact_value(self, value: Any) -> Any:
        """Return a value of JSON with its texts redacted, and those whose name says that they are secret."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact(str(name)): self._named(str(name), one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_value(one) for one in value]
        return value

    def _named(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and value and _SECRET_NAME.search(name) and not re.fullmatch(_MILESTONE, value):
            return MASK
        return self.redact_value(value)


def secrets_of(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables whose name says that they are secret, and the passwords in URLs of others."""
    for name, value in variables.items():
        if _SECRET_VARIABLE.search(name):
            yield value
            yield from (one for one in _listed(value) if len(one) >= SHORT)
        yield from _of_urls(value)


def _listed(value: str) -> Iterator[str]:
    """Yield the parts of a list: keys of snapshots, tokens of regions with their names, hashes of named tokens."""
    for one in re.split(r"[,|]", value):
        yield one
        yield one.partition("=")[2]
        if len(digest := one.rpartition(":")[2]) == SHA256_CHARS:
            yield digest


def _of_urls(text: str) -> Iterator[str]:
    """Yield the passwords, and users that may be tokens, of the URLs in a text."""
    for found in re.finditer(r"://([^\s\"'<>/|,]{1,4096})@", text):
        user, _, password = found[1].partition(":")
        yield password or user


def _forms(secret: str) -> Iterator[str]:
    """Yield how a secret may be written: by line, in a URL, in JSON, in Python, in HTML, in base 64."""
    for one in {secret.strip(), *map(str.strip, secret.splitlines()), *_path_of(secret.strip())}:
        if not one:
            continue
        yield from (one, quote(one, safe=""), quote(one), quote_plus(one), html.escape(one), repr(one)[1:-1])
        yield from (json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1])
        if len(one) >= SHORT:
            yield base64.b64encode(one.encode()).decode().rstrip("=")
            yield base64.urlsafe_b64encode(one.encode()).decode().rstrip("=")


def _path_of(text: str) -> Iterator[str]:
    """Yield path and query of a secret URL, and their last part: an address of a webhook holds its key there."""
    if "://" in text:
        try:
            found = urlsplit(text)
        except ValueError:
            return
        path = found.path + (f"?{found.query}" if found.query else "")
        yield from (one for one in (path, path.rpartition("/")[2]) if len(one) >= 2 * SHORT)
