"""What keeps the runner apart from user code: its own builtins, frames, hooks, threads and memory."""
