"""Standard input and output of cells, of C code, and of processes that cells start."""
