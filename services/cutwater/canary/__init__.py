"""The comparing process of a canary: two states side by side, milestone by milestone, and the gate's decision."""
