"""The Python program that executes the cells of one kernel. Entry point: talaria_runner.main.run."""
