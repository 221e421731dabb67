"""Produce orders, query the committed state, and read it milestone by milestone."""

from cutwater.testing import Deployment

NOON = 1_700_049_600_000  # 2023-11-15 12:00 UTC, in ms
MINUTE = 60_000


def order(customer: str, minute: int, amount: int) -> dict[str, object]:
    return {"customer": customer, "placed_at": NOON + minute * MINUTE, "amount": amount}


def test_orders_are_counted_once(cutwater_job: Deployment) -> None:
    cutwater_job.produce([order("ada", 1, 5), order("ada", 9, 7), order("ada", 10, 1), order("bob", 1, 3)])

    token = cutwater_job.wait()

    found = [(row["window_start"], row["orders"], row["amount"]) for row in cutwater_job.rows("ada")]
    assert found == [("2023-11-15T12:00:00Z", 2, 12), ("2023-11-15T12:10:00Z", 1, 1)]

    newest = {}
    for milestone in cutwater_job.milestones(up_to=token):
        newest |= {(one.key, one.window_start_ms): one.values for one in milestone.changes}
    assert newest[("bob", NOON)] == {"orders": 1, "amount": 3}


def test_a_later_order_is_a_change_of_a_later_milestone(cutwater_job: Deployment) -> None:
    cutwater_job.produce([order("cleo", 2, 4)])
    before = cutwater_job.wait()
    cutwater_job.produce([order("cleo", 3, 6)])
    after = cutwater_job.wait()

    changes = [
        one for milestone in cutwater_job.milestones(after=before, up_to=after) for one in milestone.changes
    ]
    assert [(one.key, one.values["amount"]) for one in changes] == [("cleo", 10)]
