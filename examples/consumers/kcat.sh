#!/usr/bin/env bash
# Read the output of a job with `output.format: json` to its end. usage: kcat.sh BROKERS TOPIC
# Prints one line per record: partition, offset, key (empty for an end marker), value.
set -euo pipefail
kcat -C -b "$1" -t "$2" -o beginning -e -q -X isolation.level=read_committed -f '%p\t%o\t%k\t%s\n'
