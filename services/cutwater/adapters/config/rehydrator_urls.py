"""URLs, tokens and certificate authorities of the regions' rehydrators, from the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import REGION_PATTERN

REGIONS_MAX, URLS_MAX = 16, 5
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,}")
TOKEN_RULE = "at least 16 of the characters A-Z a-z 0-9 . _ ~ + / = - are needed"  # noqa: S105 - a text
_REGIONS, _TOKENS, _CA_FILES = "CUTWATER_REGIONS", "CUTWATER_REGION_TOKENS", "CUTWATER_REGION_CA_FILES"


@dataclass(frozen=True)
class Api:
    """The HTTP API of one rehydrator."""

    url: str
    token: str = field(default="", repr=False)
    """The token to send; empty for none."""
    ca_file: str = ""
    """PEM file of the certificate authorities to trust; empty for the public ones."""


def region_apis(
    regions: str, tokens: str = "", ca_files: str = "", own_token: str = ""
) -> dict[str, tuple[Api, ...]]:
    """Return the rehydrators to query for each region, in their order; none without a global view.

    The first three are lists as in `CUTWATER_REGIONS`. `own_token`: the token for regions that have none of their
    own. Raises UsageError for an invalid region, URL or token, without showing the token.
    """
    urls = {
        name: tuple(rehydrator_url(one, _REGIONS) for one in of)
        for name, of in _named(regions, _REGIONS, "us=http://host:8321").items()
    }
    if len(urls) > REGIONS_MAX or any(len(of) > URLS_MAX for of in urls.values()):
        raise UsageError(f"{_REGIONS}: at most {REGIONS_MAX} regions with {URLS_MAX} URLs each")
    theirs = _each(_TOKENS, _named(tokens, _TOKENS, "us=TOKEN"), urls)
    for name, of in theirs.items():
        if any(one and not TOKEN.fullmatch(one) for one in of):
            raise UsageError(f"{_TOKENS}: region {name}: {TOKEN_RULE}")
    files = _each(_CA_FILES, _named(ca_files, _CA_FILES, "us=/etc/us-ca.pem"), urls)
    for name in files:
        if not any(one.startswith("https:") for one in urls[name]):
            raise UsageError(f"{_CA_FILES}: no URL of region {name} in {_REGIONS} begins with https")
    return {
        name: tuple(
            Api(url, token, file)
            for url, token, file in zip(
                of, theirs.get(name, (own_token,) * len(of)), files.get(name, ("",) * len(of)), strict=True
            )
        )
        for name, of in urls.items()
    }


def rehydrator_url(text: str, setting: str) -> str:
    """Return the URL without its trailing slash. Raises UsageError for an invalid one."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        shown = text.rpartition("@")[2]  # the part before may be a secret
        raise UsageError(f"{setting}: {shown!r} is no URL of a rehydrator; one looks like http://host:8321")
    return text.rstrip("/")


def _named(text: str, setting: str, example: str) -> dict[str, list[str]]:
    """Parse `region=item|item,region=item`."""
    found: dict[str, list[str]] = {}
    for group in text.split(",") if text.strip() else ():
        name, is_one, those = group.strip().partition("=")
        if not is_one or not re.fullmatch(REGION_PATTERN, name) or name in found:
            # The text is not shown: it may be a token without its region.
            raise UsageError(f"{setting}: a region name is invalid or repeated; an entry looks like {example}")
        found[name] = [one.strip() for one in those.split("|")]
    return found


def _each(
    setting: str, named: Mapping[str, list[str]], urls: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Expand the values to one per URL of the region: a single value counts for all of them."""
    found = {}
    for name, of in named.items():
        if name not in urls:
            raise UsageError(f"{setting} names a region without a URL in {_REGIONS}, which has {', '.join(urls)}")
        if len(of) not in (1, len(urls[name])):
            raise UsageError(
                f"{setting}: region {name} has {len(urls[name])} URLs in {_REGIONS}, but {len(of)} values here: "
                "give one value for all of them, or one per URL in the same order"
            )
        found[name] = tuple(of * len(urls[name]) if len(of) == 1 else of)
    return found
