"""Builds and seals a sandbox, and is its pid 1 afterwards. Standard library only."""
