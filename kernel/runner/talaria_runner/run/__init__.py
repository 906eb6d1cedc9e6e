"""Running user code: the execution, interrupts, deadlines, the event loop and the sources of cells."""
