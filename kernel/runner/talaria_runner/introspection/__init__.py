"""Finding out about values, names and source without running code of the user."""
