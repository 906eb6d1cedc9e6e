"""Tests of the runner in a process of its own, with the test as its host."""
