"""Saves the variables of a session in a file, and loads them into another interpreter."""
