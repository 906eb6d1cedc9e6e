"""Packages of the session: what pip is asked for, by whom, and where they are."""
