"""A copy of the builtins, so that user code that changes or deletes some of them does not change the runner.

Every module of the runner imports it under the name __builtins__ before anything else: functions and classes made
after that line look names up here. For the same reason the modules bind functions of posix, time and so on by name
when they are imported.
"""

import builtins as _live

builtins = dict(vars(_live))
