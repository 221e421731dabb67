"""The name of this process and of its user, as records have it."""

from __future__ import annotations

import os
import socket


def user_name() -> str:
    """Return the user, as in `ubuntu@node-1`; a user without a name by its number."""
    import getpass  # most verbs change nothing

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may know only the number
        user = f"uid-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def process_name() -> str:
    """Return user, host and process number, as in `ubuntu@node-1:4711`."""
    return f"{user_name()}:{os.getpid()}"
