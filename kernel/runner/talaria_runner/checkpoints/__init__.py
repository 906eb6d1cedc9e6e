"""Copies of the interpreter that wait: what a session goes back to."""
