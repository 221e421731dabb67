#!/usr/bin/env bash
# The output of a job with `output.format: json`, read to its end. usage: kcat.sh BROKERS TOPIC
# One line a record: partition, offset, key (empty for an end marker), value.
set -euo pipefail
kcat -C -b "$1" -t "$2" -o beginning -e -q -X isolation.level=read_committed -f '%p\t%o\t%k\t%s\n'
