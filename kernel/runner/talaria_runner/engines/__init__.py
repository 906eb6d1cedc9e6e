"""Running a cell from its source to its result, with and without IPython."""
