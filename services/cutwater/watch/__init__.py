"""watch: the service that follows the protocol and says when somebody should look."""
