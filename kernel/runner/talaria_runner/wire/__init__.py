"""The connection to the host: frames in both directions, and asking the outside."""
