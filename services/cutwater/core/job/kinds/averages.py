"""Averages: the quotient of a sum and a number of events.

It is a double, or, with a `scale`, a decimal with that many digits behind the point. Sums of whole and decimal
numbers are exact, so such an average is the true quotient, rounded once, half away from zero as in SQL. The
partials are the same in both cases.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from cutwater.core.errors import UsageError
from cutwater.core.job.measures import (
    ADDEND_DIGITS,
    LONG_DIGITS,
    MAX_DECIMAL,
    WIDE,
    Declaration,
    FieldType,
    Measure,
    Partials,
    count_partial,
    sum_partial,
)

_WHOLE_DIGITS = {"int": 10, "long": LONG_DIGITS}


def average(declared: Declaration) -> Measure:
    name, field = declared.name, declared.field
    total, count = f"{name}_sum", f"{name}_count"
    unit = None if declared.scale is None else Decimal(1).scaleb(-_check_scale(declared, declared.scale))

    def present(row: Partials) -> Decimal | float | None:
        if not row[count]:
            return None
        if unit is not None:
            quotient = WIDE.divide(Decimal(row[total]), row[count])
            return WIDE.plus(quotient.quantize(unit, ROUND_HALF_UP, WIDE))  # plus: a zero has no sign
        return float(row[total] / row[count])

    partials = (sum_partial(total, str(field), declared.of), count_partial(count, field))
    output: Any = "double" if declared.scale is None else FieldType("decimal", MAX_DECIMAL, declared.scale).avro
    return Measure(name, "avg", partials, present, output)


def _check_scale(declared: Declaration, scale: int) -> int:
    """Return the scale. Raises UsageError if the sum is not exact, or an average would have too many digits."""
    name, of = declared.name, declared.of
    if of.name not in (*_WHOLE_DIGITS, "decimal"):
        raise UsageError(
            f"measure '{name}': an average of {of} has no scale, because its sum is rounded; allowed types: "
            "decimal, int, long"
        )
    whole = _WHOLE_DIGITS.get(of.name, min(of.precision, ADDEND_DIGITS) - of.scale)
    most = MAX_DECIMAL - whole
    if not 0 <= scale <= most:
        raise UsageError(f"measure '{name}': scale is {scale}; allowed for {of}: 0 to {most}")
    return scale
