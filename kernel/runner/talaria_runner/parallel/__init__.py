"""Running a function or a cell over inputs, each in a forked copy of the interpreter."""
