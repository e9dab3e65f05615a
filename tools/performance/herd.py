# SPDX-License-Identifier: Apache-2.0
"""Very many clients that come back at once, after all servers of their cluster were killed and started again.

Each client is one connection with a session, and does what ZooKeeper's Java library does: when its connection
breaks, it waits up to a second, connects to the next server, names its session, and gives up on a server that does
not answer in its share of the session timeout. The time until a session is back counts from the kill."""

import errno
import multiprocessing
import random
import select
import socket
import struct
import time

SESSION_TIMEOUT_MS = 30_000
OPENING = 200  # how many sessions a process opens at a time
PAUSE_SECONDS = 1.0  # the longest time until a client connects again
STEP_SECONDS = 0.05
OPEN_PATIENCE_SECONDS = 120
CONNECT = struct.Struct(">iiqiqi16sb")
REPLY = struct.Struct(">iiiqi16s")
PING = struct.pack(">iii", 8, -2, 11)
HEADER = struct.Struct(">iiqi")


class Session:
    """A client. `due`: when it does its next step, if nothing happens before."""

    def __init__(self, servers, number):
        self.servers, self.server = servers, number % len(servers)
        self.id, self.password, self.zxid = 0, bytes(16), 0
        self.socket, self.is_up, self.received = None, False, b""
        self.due, self.back_at, self.attempts = 0.0, None, 0

    def begin(self, now):
        """Begins to connect to the next server."""
        self.server = (self.server + 1) % len(self.servers)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.received, self.is_up = b"", False
        self.due = now + SESSION_TIMEOUT_MS / 1000 / len(self.servers)
        self.attempts += 1
        return self.socket.connect_ex(self.servers[self.server]) in (0, errno.EINPROGRESS)

    def end(self, now, chance):
        """Closes a broken connection."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        self.is_up = False
        self.due = now + chance.uniform(0, PAUSE_SECONDS)

    def greet(self):
        body = CONNECT.pack(CONNECT.size - 4, 0, self.zxid, SESSION_TIMEOUT_MS, self.id, 16, self.password, 0)
        return self.socket.send(body) == len(body)

    def take(self, now):
        """Handles what has come. Returns "up" if the session is up now, "lost" if it has ended, "broken" if the
        connection has."""
        try:
            data = self.socket.recv(1 << 12)
        except BlockingIOError:
            return ""
        except OSError:
            return "broken"
        if not data:
            return "broken"
        self.received += data
        if self.is_up:
            while len(self.received) >= 4 + 16:
                size = struct.unpack_from(">i", self.received)[0]
                self.zxid = max(self.zxid, struct.unpack_from(">q", self.received, 8)[0])
                self.received = self.received[4 + size:]
            return ""
        if len(self.received) < REPLY.size:
            return ""
        _, _, timeout_ms, session, _, password = REPLY.unpack_from(self.received)
        if timeout_ms <= 0:
            return "lost"
        self.id, self.password, self.received = session, password, b""
        self.is_up, self.due = True, now + SESSION_TIMEOUT_MS / 3000
        return "up"


class Sessions:
    """The sessions of one process."""

    def __init__(self, servers, numbers, seed):
        self.chance = random.Random(seed)
        self.epoll = select.epoll()
        self.all = [Session(servers, number) for number in numbers]
        self.of_file, self.waiting = {}, list(self.all)
        self.lost = 0

    def work(self, now, most=None):
        """Does what is due. `most`: how many may be connecting at a time."""
        connecting = 0
        for session in self.all:
            if session.is_up:
                if now >= session.due:
                    self._ping(session, now)
            elif session.socket is None:
                if now >= session.due and (most is None or connecting < most):
                    connecting += 1
                    self._connect(session, now)
            else:
                connecting += 1
                if now >= session.due:
                    self._break(session, now)

    def _connect(self, session, now):
        if session.begin(now):
            self.of_file[session.socket.fileno()] = session
            self.epoll.register(session.socket, select.EPOLLOUT)
        else:
            session.end(now, self.chance)

    def _ping(self, session, now):
        session.due = now + SESSION_TIMEOUT_MS / 3000
        try:
            session.socket.send(PING)
        except OSError:
            self._break(session, now)

    def _break(self, session, now):
        self.of_file.pop(session.socket.fileno(), None)
        session.end(now, self.chance)

    def poll(self, seconds):
        """Handles events for so long. Returns how many sessions came up."""
        came_up = 0
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            for file, mask in self.epoll.poll(rest, 1024):
                came_up += self._handle(self.of_file.get(file), mask)
        return came_up

    def _handle(self, session, mask):
        if session is None:
            return 0
        now = time.monotonic()
        if mask & (select.EPOLLERR | select.EPOLLHUP):
            self._break(session, now)
        elif mask & select.EPOLLOUT:
            self.epoll.modify(session.socket, select.EPOLLIN)
            try:
                session.greet()
            except OSError:
                self._break(session, now)
        elif outcome := session.take(now):
            if outcome == "up":
                session.back_at = now
                return 1
            if outcome == "lost":
                self.lost += 1
                session.id, session.password = 0, bytes(16)
            self._break(session, now)
        return 0


def _process(servers, numbers, seed, pipe):
    sessions = Sessions(servers, numbers, seed)
    deadline = time.monotonic() + OPEN_PATIENCE_SECONDS
    while not all(session.is_up for session in sessions.all):
        if time.monotonic() > deadline:
            pipe.send("the sessions could not be opened")
            return
        sessions.work(time.monotonic(), OPENING)
        sessions.poll(STEP_SECONDS)
    pipe.send("")
    while not pipe.poll():
        sessions.work(time.monotonic())
        sessions.poll(STEP_SECONDS)
    killed, patience = pipe.recv()
    for session in sessions.all:
        session.back_at, session.attempts = None, 0
    while time.monotonic() < killed + patience:
        sessions.work(time.monotonic())
        sessions.poll(STEP_SECONDS)
        if all(session.back_at is not None and session.is_up for session in sessions.all):
            break
    pipe.send(([session.back_at - killed for session in sessions.all if session.back_at is not None],
               sum(session.attempts for session in sessions.all), sessions.lost))


class Herd:
    """`count` sessions, in processes of 8,000 at most, because a process may have only so many open files. A context
    manager, whose begin waits until all are open."""

    EACH = 8000

    def __init__(self, servers, count):
        self.count = count
        self.workers = []
        for begin in range(0, count, self.EACH):
            ours, theirs = multiprocessing.Pipe()
            numbers = range(begin, min(begin + self.EACH, count))
            process = multiprocessing.Process(target=_process, args=(servers, numbers, begin, theirs), daemon=True)
            process.start()
            self.workers.append((process, ours))

    def __enter__(self):
        for _, pipe in self.workers:
            if problem := pipe.recv():
                raise RuntimeError(problem)
        return self

    def __exit__(self, *_):
        for process, _ in self.workers:
            process.kill()
            process.join()

    def await_return(self, killed, patience):
        """Waits until all sessions are back, `patience` seconds at most after the kill, which was at `killed`. Returns
        (times in ascending order, number of connections begun, number of sessions that had expired)."""
        for _, pipe in self.workers:
            pipe.send((killed, patience))
        times, attempts, lost = [], 0, 0
        for _, pipe in self.workers:
            of_process = pipe.recv()
            times += of_process[0]
            attempts += of_process[1]
            lost += of_process[2]
        return sorted(times), attempts, lost
