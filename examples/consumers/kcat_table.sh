#!/usr/bin/env bash
# The table at the end of the output of a job with `output.format: json`. usage: kcat_table.sh BROKERS TOPIC
# The last record of a key and window counts: `update`, `final` or `correction`. A `tombstone` removes the row.
# Prints one line of JSON per row. All records of a key are in one partition, in order.
# jq 1.6 rounds whole numbers beyond 2^53.
set -euo pipefail
kcat -C -b "$1" -t "$2" -o beginning -e -q -X isolation.level=read_committed -f '%s\n' | jq -cn '
  reduce (inputs | select(has("kind"))) as $row ({};
    "\($row.window_start) \($row.key)" as $place |
    if $row.kind == "tombstone" then del(.[$place]) else .[$place] = $row end
  ) | .[]'
