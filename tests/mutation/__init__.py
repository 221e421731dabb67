"""One place of core/ changed at a time: does a test notice? `make mutate`; docs/MUTATION.md has the score."""
