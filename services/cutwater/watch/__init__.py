"""watch: the service that follows the protocol topics and raises alerts."""
