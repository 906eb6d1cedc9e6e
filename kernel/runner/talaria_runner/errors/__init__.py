"""Exceptions as users read them: tracebacks, messages and hints."""
