"""Forks a copy of this process that is not a child of it but of its parent, so that code of the user that waits for its
children never sees the copy.

The usual way is to fork twice and to end the process in between. It copies the tables of all memory twice and frees them
once, which is most of the time that a checkpoint takes: 500 MiB take 37 ms instead of 13. So the process in between shares
its memory with this one, as that of vfork does, and only the copy is a fork. C can do that on a stack of its own, Python
cannot; hence a few instructions for the processor that is the most common. Others fork twice.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask, valid_signals
from errno import ENOMEM
from posix import _exit, fork, getpid, strerror, uname, waitpid
from sys import maxsize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# int64_t function(void *stack, void *functions[4]): 0 in the copy, otherwise the pid of the process in between, which
# ends at once, or a negative error number. Whoever calls it holds the interpreter's lock throughout.
_X86_64 = bytes.fromhex(
    "53554154"  # push rbx; push rbp; push r12
    "4889f3"  # mov rbx, rsi            the functions
    "4989fc"  # mov r12, rdi            the stack
    "ff13"  # call [rbx]                PyOS_BeforeFork()
    "4889e5"  # mov rbp, rsp
    "bf11410000"  # mov edi, 0x4111     CLONE_VM | CLONE_VFORK | SIGCHLD
    "4c89e6"  # mov rsi, r12
    "31d24531d24531c0"  # xor edx, edx; xor r10d, r10d; xor r8d, r8d
    "b8380000000f05"  # mov eax, 56; syscall    clone: this process waits until the new one has ended
    "4885c0751d"  # test rax, rax; jnz parent
    "ff5308"  # call [rbx+8]            fork(), in the process in between
    "85c0740c"  # test eax, eax; jz copy
    "c1e81f89c7"  # shr eax, 31; mov edi, eax   status 1 if there is no copy
    "b83c0000000f05"  # mov eax, 60; syscall    exit
    "4889ec"  # copy: mov rsp, rbp      back to the stack as this process left it
    "ff5310"  # call [rbx+16]           PyOS_AfterFork_Child()
    "31c0eb09"  # xor eax, eax; jmp end
    "4989c4"  # parent: mov r12, rax
    "ff5318"  # call [rbx+24]           PyOS_AfterFork_Parent()
    "4c89e0"  # mov rax, r12
    "415c5d5bc3"  # end: pop r12; pop rbp; pop rbx; ret
)
_FUNCTIONS = ("PyOS_BeforeFork", "fork", "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent")
_PAGE = 1 << 12
_STACK = 1 << 20  # bytes, for fork and what libraries have registered with pthread_atfork
_READ, _EXECUTE = 1, 4  # of mprotect

_way: Callable[[], int] | None = None  # to fork, once it was needed


def fork_sibling() -> bool:
    """Forks. Returns whether this process is the copy, in which all signals are blocked. Raises OSError if there is no copy.
    Only in the main thread."""
    global _way
    if _way is None:
        _way = _make_native() or _fork_twice
    before, here = pthread_sigmask(SIG_BLOCK, valid_signals()), getpid()
    try:
        pid = _way()
        if pid == 0:
            return True
        if pid < 0:
            raise OSError(-pid, strerror(-pid))
        try:
            status = waitpid(pid, 0)[1]
        except ChildProcessError:
            status = 0  # code of the user ignores SIGCHLD; a copy that there is says so
        if status:
            raise OSError(ENOMEM, strerror(ENOMEM))
    except BaseException:
        if getpid() != here:
            _exit(1)  # there is one interpreter
        pthread_sigmask(SIG_SETMASK, before)
        raise
    pthread_sigmask(SIG_SETMASK, before)
    return False


def _fork_twice() -> int:
    pid = fork()
    if pid:
        return pid
    try:
        if fork():
            _exit(0)
    except BaseException:
        _exit(1)
    return 0


def _make_native() -> Callable[[], int] | None:
    """The instructions above as a function, or None where they cannot run."""
    if uname().machine != "x86_64" or maxsize < 1 << 32:
        return None
    try:
        from _ctypes import CFuncPtr, _SimpleCData, addressof, dlopen, dlsym
        from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

        class Byte(_SimpleCData):
            _type_ = "c"

        class Long(_SimpleCData):
            _type_ = "l"

        class Pointer(_SimpleCData):
            _type_ = "P"

        class Function(CFuncPtr):
            _flags_ = 1 | 4  # of C, and called with the interpreter's lock
            _restype_ = Long

        everything = dlopen(None, 2)
        functions = mmap(-1, _PAGE, MAP_PRIVATE | MAP_ANONYMOUS)
        for name in _FUNCTIONS:
            functions.write(dlsym(everything, name).to_bytes(8, "little"))
        code, stack = (mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS) for size in (_PAGE, _STACK))
        code.write(_X86_64)
        start, top, table = (addressof(Byte.from_buffer(area)) for area in (code, stack, functions))
        protect = Function(dlsym(everything, "mprotect"))
        if protect(Pointer(start), Long(_PAGE), Long(_READ | _EXECUTE)):
            return None
        call = Function(start)
    except Exception:
        return None  # there is no _ctypes, or user code has put something else in its place
    areas = code, stack, functions  # they live as long as the function
    arguments = Pointer(top + len(areas[1])), Pointer(table)
    return lambda: call(*arguments) if areas else 0
