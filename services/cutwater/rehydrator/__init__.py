"""The rehydrator service: a view at exactly one milestone, served over HTTP."""
