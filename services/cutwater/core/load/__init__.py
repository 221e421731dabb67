"""Events for a load: how many come when, with which keys, values and flaws."""
