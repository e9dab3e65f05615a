# SPDX-License-Identifier: Apache-2.0
"""Tests the znodes and service instances that the C++ client's recipes keep, while their workers and members
are killed, and another worker deletes the znodes again and again (recipes_data.py has the scene)."""

import collections
import time

import native
from recipes_data import PATIENCE_SECONDS, Scene, of_event

# The faults go on until there were more such events.
READS_MIN, DELETIONS_MIN, FINDS_MIN = 100, 50, 50
LONG_TTL_SECONDS = 600

Said = collections.namedtuple("Said", "session number")


def said(text):
    """Parses the data of a session: the session's id, and a number that grows."""
    session, number = text.split(":")
    return Said(int(session), int(number))


def last_sessions(workers):
    return {worker.name: int(of_event(worker.history(), "connected")[-1].words[0]) for worker in workers}


class Written:
    """The numbers that readers have to see of each session and znode: from a time on, at least the given number."""

    def __init__(self, history, event):
        self.by_key = collections.defaultdict(list)  # (ns, number)
        for line in of_event(history, event):
            what, session, number = line.words
            self.by_key[what, int(session)].append((line.ns, int(number)))

    def least(self, what, session, ns):
        return max((number for at, number in self.by_key[what, session] if at < ns), default=0)


def looks_of(history, event):
    """Yields each line of an event that ends a read, and the time when that read began."""
    looking = {}
    for line in history:
        if line.event == "looking":
            looking[line.pid] = line.ns
        if line.event == event:
            yield line, looking[line.pid]


def check_reads(history):
    """Checks that a znode belongs to the session in its data, and that the data are not older than data that the
    session has set before."""
    written = Written(history, "set")
    reads = 0
    stays = collections.defaultdict(list)  # when a session had closed its znode: (closed, again)
    for line in history:
        if line.event == "closed":
            stays[line.words[0], int(line.words[1])].append([line.ns, 1 << 63])
        elif line.event == "setting" and stays[line.words[0], int(line.words[1])]:
            last = stays[line.words[0], int(line.words[1])][-1]
            last[1] = min(last[1], line.ns)
    for line, began in looks_of(history, "saw"):
        reads += 1
        path, owner, data = line.words[0], int(line.words[1]), said(line.words[2])
        assert data.session == owner, f"{path} of {owner} has the data of {data.session}: {line}"
        least = written.least(path, owner, began)
        assert data.number >= least, f"{path} has {data.number}, and {owner} had set {least}: {line}"
        for closed, again in stays[path, owner]:
            assert not closed < began < line.ns < again, f"{path} exists although {owner} has closed it: {line}"
    return reads


def alone_a_persistent_node_is_there_and_its_owners(server):
    with Scene(server) as scene:
        keepers = [scene.add("keep", f"k{i}") for i in range(3)]
        raider, observer = scene.add("raid", "r0"), scene.add("observe", "o0")
        for worker in keepers:
            worker.wait_for("set", 5)
        for event in ("deleted", "closed"):
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not of_event(scene.history(), event):
                assert time.monotonic() < deadline, f"nothing was {event}"
                time.sleep(0.02)
        scene.do_mischief(keepers, is_enough=lambda: (
            len(of_event(observer.history(), "saw")) > READS_MIN
            and len(of_event(raider.history(), "deleted")) > DELETIONS_MIN))
        scene.finish([raider])
        # Waits until all znodes exist again, each with its current session.
        finished = time.monotonic_ns()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            seen = {line.words[0]: int(line.words[1]) for line in of_event(observer.history(), "saw")
                    if line.ns > finished}
            wanted = {f"/kept/{name}": session for name, session in last_sessions(keepers).items()}
            if all(seen.get(path) == session for path, session in wanted.items()):
                break
            assert time.monotonic() < deadline, f"there are {seen}, not {wanted}"
            time.sleep(0.1)
        scene.finish(keepers + [observer])
        with native.Tree(scene.cluster.command("grpc").split(",")[0]) as tree:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while left := list(tree.list("/kept").result.children):
                assert time.monotonic() < deadline, f"left behind: {left}"
                time.sleep(0.05)
        history = scene.history()
        reads = check_reads(history)
        deleted = len(of_event(history, "deleted"))
        assert reads > READS_MIN and deleted > DELETIONS_MIN, f"{reads} reads, {deleted} deletions"
        return f"{reads} reads, {deleted} deletions, {scene.note()}"


def alone_a_znode_with_a_ttl_outlives_its_holders(server):
    with Scene(server) as scene:
        keepers = [scene.add("keep-ttl", f"t{i}", "--jobs", LONG_TTL_SECONDS) for i in range(2)]
        brief = scene.add("keep-ttl", "brief", "--jobs", 1)
        for worker in keepers + [brief]:
            worker.wait_for("there")
        observer = scene.add("observe-ttl", "o0", "--jobs", LONG_TTL_SECONDS)
        observer.wait_for("saw")
        brief.kill()
        scene.do_mischief(keepers, is_enough=lambda: len(of_event(observer.history(), "saw")) > READS_MIN)
        for worker in keepers:
            worker.kill()
        # Without a holder, the servers delete the znode with the short TTL, and not yet the other one.
        scene.add("observe-ttl", "o1", "--jobs", 1).wait_for("missed")
        seen = len(of_event(observer.history(), "saw"))
        observer.wait_for("saw", seen + 3)
        assert not of_event(observer.history(), "missed"), "the znode did not exist at some time"
        scene.finish([worker for worker in scene.workers if worker.name.startswith("o")])
        return f"{len(of_event(observer.history(), 'saw'))} reads, {scene.note()}"


def check_finds(history):
    """Checks that each worker finds itself, and that the payloads of other workers are not older than payloads that
    they had set before."""
    written = Written(history, "updated")
    finds = 0
    for line, began in looks_of(history, "found"):
        finds += 1
        found = dict(pair.split("=") for pair in line.words[0].split(",")) if line.words else {}
        assert line.worker.name in found, f"{line.worker.name} did not find itself: {line}"
        for name, text in found.items():
            data = said(text)
            least = written.least(name, data.session, began)
            assert data.number >= least, f"{name} said {least}, and {data.number} was found: {line}"
    return finds


def alone_services_are_found_as_long_as_they_are_there(server):
    with Scene(server) as scene:
        workers = [scene.add("serve", f"s{i}") for i in range(4)]
        for worker in workers:
            worker.wait_for("found", 5)
        scene.do_mischief(workers, is_enough=lambda: (
            len(of_event(scene.history(workers), "found")) > FINDS_MIN))
        gone, *there = workers
        gone.kill()
        wanted = sorted(worker.name for worker in there)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            last = [of_event(worker.history(), "found")[-1].words for worker in there]
            if all(sorted(pair.split("=")[0] for pair in words[0].split(",")) == wanted
                   for words in last if words) and all(last):
                break
            assert time.monotonic() < deadline, f"{wanted} are there, and found are {last}"
            time.sleep(0.1)
        scene.finish(there)
        history = scene.history()
        assert not of_event(history, "nobody"), "a service without instances"
        finds = check_finds(history)
        assert finds > FINDS_MIN, f"{finds} finds"
        return f"{finds} finds, {scene.note()}"
