"""Builds and seals a sandbox, and then serves as its pid 1. Standard library only."""
