"""The events of three of Nexmark's queries, drawn as its generator does: bids, and persons with auctions.

Of fifty events one is a person, three are auctions and 46 are bids, in this order, 10,000 a second, none out of
order. An event's ids follow from its number. A topic holds only the events that its query reads.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.windows.columns import PARTITIONS, Backlog, Flags, Ints, Numbers, Texts
from benchmarks.windows.workload import START_MS

PERSONS, AUCTIONS, BIDS = 1, 3, 46
"""Of each kind in a round of events."""
ROUND = PERSONS + AUCTIONS + BIDS
EVENTS_PER_S = 10_000
FIRST_ID = 1_000
"""Of persons and of auctions."""
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS = 2, 4, 4
"""All but one of so many events are of a hot auction, seller or bidder."""
HOT_EVERY = 100
"""One of so many in a row is the hot one."""
IN_FLIGHT, ACTIVE, LEAD = 100, 1_000, 10
"""The newest auctions and persons that a choice is from, and how many of the future ones."""
CATEGORIES, FIRST_CATEGORY = 5, 10
CHANNELS, HOT_CHANNELS = 10_000, ("Google", "Facebook", "Baidu", "Apple")
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent",
    "Cheyenne",
)  # fmt: skip
_FILLERS, _EXTRA_MIN, _EXTRA_MAX = 4_096, 54, 82
"""Texts that make a bid a hundred bytes, as Nexmark counts them."""
_LETTERS = np.array(list(string.ascii_lowercase))

COUNT_OF_BIDS = "count(*)"
HIGHEST_BID = "max(price)"
PERSONS_AND_AUCTIONS = "count(name), count(auction)"


def bids(size: int, seed: int) -> Backlog:
    """`size` bids, by auction; the same for the same arguments."""
    rng, place = np.random.default_rng(seed), np.arange(size, dtype=np.int64)
    number = place // BIDS * ROUND + PERSONS + AUCTIONS + place % BIDS
    auction = _auction_of_bid(rng, number)
    channels = [*HOT_CHANNELS, *(f"channel-{one}" for one in range(CHANNELS))]
    urls = [f"https://auctions.example/{text}/item.htm?query=1" for text in _texts(rng, len(channels), 9, 15)]
    channel = np.where(
        rng.integers(0, 2, size) > 0,
        rng.integers(0, len(HOT_CHANNELS), size),
        len(HOT_CHANNELS) + rng.integers(0, CHANNELS, size),
    )
    return Backlog(
        {
            "auction": Numbers(FIRST_ID + auction),
            "bidder": Numbers(FIRST_ID + _bidder(rng, number)),
            "price": Numbers(prices(rng, size)),
            "channel": Texts(channel, channels),
            "url": Texts(channel, urls),
            "at": Numbers(_times(number)),
            "extra": Texts(rng.integers(0, _FILLERS, size), _texts(rng, _FILLERS, _EXTRA_MIN, _EXTRA_MAX)),
        },
        *_ids(auction),
    )


def arrivals(size: int, seed: int) -> Backlog:
    """`size` persons and auctions, by person: the one that is new, or the one that sells."""
    rng, place = np.random.default_rng(seed), np.arange(size, dtype=np.int64)
    number = place // (PERSONS + AUCTIONS) * ROUND + place % (PERSONS + AUCTIONS)
    is_person: Flags = number % ROUND < PERSONS
    is_auction: Flags = ~is_person
    person = np.where(is_person, _last_person(number), _seller(rng, number))
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    initial = prices(rng, size)
    return Backlog(
        {
            "person": Numbers(FIRST_ID + person),
            "at": Numbers(_times(number)),
            "name": Texts(rng.integers(0, len(names), size), names, is_person),
            "city": Texts(rng.integers(0, len(CITIES), size), CITIES, is_person),
            "state": Texts(rng.integers(0, len(STATES), size), STATES, is_person),
            "auction": Numbers(FIRST_ID + _last_auction(number), is_auction),
            "item": Texts(rng.integers(0, _FILLERS, size), _texts(rng, _FILLERS, 3, 20), is_auction),
            "initial_bid": Numbers(initial, is_auction),
            "reserve": Numbers(initial + prices(rng, size), is_auction),
            "category": Numbers(FIRST_CATEGORY + rng.integers(0, CATEGORIES, size), is_auction),
        },
        *_ids(person),
    )


def prices(rng: np.random.Generator, size: int) -> Ints:
    """In cents: as many from 1 to 10 as from 100,000 to a million."""
    return np.rint(10 ** (rng.random(size) * 6) * 100).astype(np.int64)


def _last_person(number: Ints) -> Ints:
    """The newest person at each event."""
    return number // ROUND * PERSONS + np.minimum(number % ROUND, PERSONS - 1)


def _last_auction(number: Ints) -> Ints:
    """The newest auction at each event: at a person's, that of the round before."""
    in_round = number % ROUND - PERSONS
    return number // ROUND * AUCTIONS + np.where(in_round < 0, -1, np.minimum(in_round, AUCTIONS - 1))


def _auction_of_bid(rng: np.random.Generator, number: Ints) -> Ints:
    last = _last_auction(number)
    oldest = np.maximum(last - IN_FLIGHT, 0)
    return np.where(
        _hot(rng, number, HOT_AUCTIONS),
        last // HOT_EVERY * HOT_EVERY,
        rng.integers(oldest, last + 1 + LEAD),
    )


def _seller(rng: np.random.Generator, number: Ints) -> Ints:
    hot = _last_person(number) // HOT_EVERY * HOT_EVERY
    return np.where(_hot(rng, number, HOT_SELLERS), hot, _any_person(rng, number))


def _bidder(rng: np.random.Generator, number: Ints) -> Ints:
    """The hot bidder is the person behind the hot seller."""
    hot = _last_person(number) // HOT_EVERY * HOT_EVERY + 1
    return np.where(_hot(rng, number, HOT_BIDDERS), hot, _any_person(rng, number))


def _any_person(rng: np.random.Generator, number: Ints) -> Ints:
    known = _last_person(number) + 1
    return rng.integers(known - np.minimum(known, ACTIVE), known + LEAD)


def _hot(rng: np.random.Generator, number: Ints, ratio: int) -> NDArray[np.bool_]:
    return rng.integers(0, ratio, len(number)) > 0


def _times(number: Ints) -> Ints:
    return START_MS + number * 1000 // EVENTS_PER_S


def _ids(places: Ints) -> tuple[Texts, Ints]:
    """The records' keys and partitions. By a hash: the hot ones are a hundred apart, all of one remainder."""
    keys = Texts(places, [str(FIRST_ID + place) for place in range(int(places.max()) + 1)])
    return keys, np.array([crc32(key) % PARTITIONS for key in keys.bytes])[places]


def _texts(rng: np.random.Generator, count: int, shortest: int, longest: int) -> Sequence[str]:
    """Texts of letters by chance, below the longest."""
    letters = rng.choice(_LETTERS, (count, longest))
    lengths = rng.integers(shortest, longest, count).tolist()
    return ["".join(row[:length]) for row, length in zip(letters.tolist(), lengths, strict=True)]
