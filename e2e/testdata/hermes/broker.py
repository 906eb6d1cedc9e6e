"""What hermes-agent does with its local execution broker, in the standard library: the request, the checks of the socket, and the handle
of the process. Written after its behaviour, not copied from it."""

import array
import json
import os
import socket
import stat
import struct
import time


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


def start_time(pid):
    """Field 22 of /proc/PID/stat."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def check_socket(path, uid):
    folder, here = os.lstat(os.path.dirname(path)), os.lstat(path)
    assert stat.S_ISDIR(folder.st_mode) and not stat.S_IMODE(folder.st_mode) & 0o022, oct(folder.st_mode)
    assert stat.S_ISSOCK(here.st_mode) and here.st_uid == folder.st_uid == uid, (here.st_uid, folder.st_uid, uid)


def connect(path, uid):
    check_socket(path, uid)
    conn = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    conn.settimeout(60)
    conn.connect(path)
    peer = struct.unpack("=iII", conn.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    assert peer[1] == uid, peer
    return conn


def send(conn, body, fds):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sent = conn.sendmsg([body], rights)
    if sent < len(body):
        conn.sendall(body[sent:])


class Lines:
    """The lines of a connection."""

    def __init__(self, conn):
        self.conn, self.rest = conn, b""

    def next(self):
        """The next line, decoded; None at the end."""
        while b"\n" not in self.rest:
            data = self.conn.recv(65536)
            if not data:
                return None
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)


def request(path, uid, fds=(), **fields):
    """Sends a request and returns the connection and the answer."""
    conn = connect(path, uid)
    try:
        send(conn, json.dumps({"op": "launch", **fields}).encode() + b"\n", list(fds))
        lines = Lines(conn)
        answer = lines.next()
        if answer is None:
            raise Refused("no_reply", "the connection ended")
        if not answer["ok"]:
            raise Refused(answer["error"], answer["message"])
    except BaseException:
        conn.close()
        raise
    return conn, lines, answer


class Process:
    """A launched program. Its streams are pipes whose other ends went to the broker."""

    def __init__(self, path, uid, runner=None, merged=False, stdin=True, **fields):
        fds, ends = [], {}
        if runner is not None:
            fds.append(os.open(runner, os.O_RDONLY))
            fields["runner_fd"] = True
        for name in ["stdin"] * stdin + ["stdout"] + ["stderr"] * (not merged):
            read, write = os.pipe()
            theirs, ends[name] = (read, write) if name == "stdin" else (write, read)
            fields[name + "_fd"] = len(fds)
            fds.append(theirs)
        try:
            self.conn, self.lines, self.answer = request(path, uid, fds, **fields)
        except BaseException:
            for fd in ends.values():
                os.close(fd)
            raise
        finally:
            for fd in fds:
                os.close(fd)
        self.pid, self.started = self.answer["pid"], self.answer["start_time"]
        assert self.pid > 0 and self.started > 0, self.answer
        self.stdin = open(ends["stdin"], "wb") if stdin else None
        self.stdout = open(ends["stdout"], "rb")
        self.stderr = None if merged else open(ends["stderr"], "rb")

    def lives(self):
        """Whether the process that the broker named is still there."""
        try:
            return start_time(self.pid) == self.started
        except OSError:
            return False

    def wait(self):
        """The exit code."""
        answer = self.lines.next()
        return None if answer is None else answer["exit"]

    def kill(self):
        """Ends the lease, and waits until the process is gone, for as long as hermes does."""
        self.conn.close()
        deadline = time.monotonic() + 5
        while self.lives():
            assert time.monotonic() < deadline, "the process outlives its lease"
            time.sleep(0.01)

    def close(self):
        self.conn.close()
        for file in (self.stdin, self.stdout, self.stderr):
            if file:
                file.close()
