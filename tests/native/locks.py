# SPDX-License-Identifier: Apache-2.0
"""Tests the locks and elections of the native front end on real clusters: contenders in Python, Node, C++ and Java in one
queue, while their processes and the members are killed. Runs the programs of examples/."""

import atexit
import contextlib
import itertools
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import grpc
import grpc_channel
import harness
import kazoo.client
import kazoo.recipe.lock
import native
import npm_packages
from native import lock, types

sys.path.append(os.path.join(harness.ROOT, "tests/interop"))
import jvm  # noqa: E402  pylint: disable=wrong-import-position

EXAMPLES = os.path.join(harness.ROOT, "examples")
CONTENDER = os.path.join(os.environ.get("QUORATE_BIN", os.path.join(harness.ROOT, ".bazel/opt-bin")),
                         "tests/native/recipes/contender")
JARS = (*jvm.CURATOR, "curator-x-discovery", "jackson-core", "jackson-databind", "jackson-annotations")
PATIENCE_SECONDS = 40
# Sessions of this module stay for the whole test, unless their holders are killed.
TIMEOUT_MS = 30000
NAMES = itertools.count()


def _fresh(name):
    return f"/locks-{name}-{next(NAMES)}"


class Stream:
    """The stream of a contender or an observer. `states` are "waiting 1", "held", "lost DELETED", ..."""

    def __init__(self, address, method, request):
        service, name = method.split("/")
        self.channel = grpc_channel.open_channel(address)
        response = getattr(lock, f"{name}Response")
        self.call = self.channel.unary_stream(f"/quorate.v1.{service}/{name}", type(request).SerializeToString,
                                              response.FromString)(request)
        self.messages, self.token, self.node = queue.Queue(), None, None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for response in self.call:
                self.messages.put(response)
            self.messages.put("OK")
        except grpc.RpcError as error:
            self.messages.put(error.code().name)

    def next(self):
        """Returns the next state, or the name of the status with which the stream has ended."""
        response = self.messages.get(timeout=PATIENCE_SECONDS)
        if isinstance(response, str):
            return response
        state = response.WhichOneof("state")
        shown = getattr(response, state)
        self.node = getattr(shown, "node", self.node)
        if state == "waiting":
            return f"waiting {shown.ahead}"
        if state == "lost":
            return "lost " + lock.LossReason.Name(shown.reason).removeprefix("LOSS_REASON_")
        self.token = shown.token
        return state

    def expect(self, *states):
        for state in states:
            found = self.next()
            assert found == state, f"{state} was expected, not {found}"
        return self

    def end(self):
        self.call.cancel()
        self.channel.close()


def _contender(session, path, name):
    return lock.Contender(path=path, id=name, session_id=session.id, session_password=session.password)


def _acquire(address, session, path, name, **fields):
    return Stream(address, "LockService/Acquire",
                  lock.AcquireRequest(contender=_contender(session, path, name), **fields))


def _call(address, method, **fields):
    service, name = method.split("/")
    with contextlib.closing(grpc_channel.open_channel(address)) as channel:
        response = getattr(lock, f"{name}Response")
        request = getattr(lock, f"{name}Request")
        stub = channel.unary_unary(f"/quorate.v1.{service}/{name}", request.SerializeToString, response.FromString)
        try:
            return stub(request(**fields), timeout=native.SECONDS)
        except grpc.RpcError as error:
            raise native.Failed(error) from None


def _release(address, session, path, name):
    return _call(address, "LockService/Release", contender=_contender(session, path, name)).released


def _queue(address, path):
    """Returns the names of the contenders, in the order of the queue."""
    with native.Tree(address) as tree:
        names = tree.call("List", native.tree.ListRequest(
            path=path, options=native.tree.ReadOptions(linearizable=True))).result.children
    return sorted(names, key=lambda name: name[-10:])


# --- Calls -----------------------------------------------------------------------------------------


def shared_a_lock_is_held_in_order_by_contenders_of_several_members(cluster):
    path, addresses = _fresh("order"), cluster.command("grpc").split(",")
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(native.Session(address, timeout_ms=TIMEOUT_MS)) for address in addresses]
        streams, tokens = [], []
        for i in range(6):
            at = i % len(addresses)
            stream = _acquire(addresses[at], sessions[at], path, f"c{i}")
            stack.callback(stream.end)
            streams.append(stream.expect(f"waiting {i}" if i else "held"))
        assert len(_queue(addresses[0], path)) == 6
        for i, stream in enumerate(streams):
            if i:
                stream.expect("held")
            tokens.append(stream.token)
            at = i % len(addresses)
            assert _release(addresses[at], sessions[at], path, f"c{i}")
            stream.expect("lost DELETED", "OK")
            assert not _release(addresses[at], sessions[at], path, f"c{i}")
        assert tokens == sorted(set(tokens)), tokens
        # The call of a session that is attached elsewhere is refused.
        refused = _acquire(addresses[0], sessions[1], path, "elsewhere")
        stack.callback(refused.end)
        refused.expect("ABORTED")
        # A writer is fenced by its node and token, in the transaction itself.
        held = _acquire(addresses[0], sessions[0], path, "fenced").expect("held")
        stack.callback(held.end)
        guard = types.Operation(check_created=types.Operation.CheckCreated(path=held.node, created_zxid=held.token))
        assert not sessions[0].write(1, guard, native.create(path + "-data")).error
        sessions[0].close()
        held.expect("lost SESSION_ENDED", "OK")
        assert native.name_of(sessions[1].write(1, guard, native.create(path + "-late")).error) == "NO_NODE"


def shared_an_election_shows_its_leader_to_observers_at_every_member(cluster):
    path, addresses = _fresh("election"), cluster.command("grpc").split(",")
    with contextlib.ExitStack() as stack:
        observers = [Stream(address, "ElectionService/Observe", lock.ObserveRequest(path=path))
                     for address in addresses]
        for observer in observers:
            stack.callback(observer.end)

        def expect(*leader):
            for observer in observers:
                shown = observer.messages.get(timeout=PATIENCE_SECONDS)
                found = (shown.leader.id, shown.leader.data) if shown.HasField("leader") else ()
                assert found == leader, f"{leader} was expected, not {found}"
        expect()
        sessions = [stack.enter_context(native.Session(address, timeout_ms=TIMEOUT_MS)) for address in addresses]
        candidates = []
        for i, (address, session) in enumerate(zip(addresses, sessions)):
            request = lock.CampaignRequest(contender=_contender(session, path, f"c{i}"), data=b"%d" % i)
            candidates.append(Stream(address, "ElectionService/Campaign", request))
            stack.callback(candidates[-1].end)
            candidates[-1].expect(f"waiting {i}" if i else "leading")
        expect("c0", b"0")
        _call(addresses[0], "ElectionService/Proclaim", contender=_contender(sessions[0], path, "c0"), data=b"news")
        expect("c0", b"news")
        assert _call(addresses[0], "ElectionService/Resign", contender=_contender(sessions[0], path, "c0")).resigned
        expect("c1", b"1")
        candidates[1].expect("leading")
        sessions[1].close()
        candidates[1].expect("lost SESSION_ENDED", "OK")
        expect("c2", b"2")
        assert candidates[2].expect("leading").token > candidates[1].token > candidates[0].token
        # They are the candidates of Curator's LeaderSelector, and of the C++ client's Election.
        assert re.fullmatch(path + r"/_c_c2-lock-\d{10}", candidates[2].node), candidates[2].node


def shared_kazoo_stands_in_the_same_queue(cluster):
    path, address = _fresh("kazoo"), cluster.command("grpc").split(",")[0]
    client = kazoo.client.KazooClient(cluster.address(2), timeout=20)
    client.start(15)
    try:
        with native.Session(address, timeout_ms=TIMEOUT_MS) as session:
            first = _acquire(address, session, path, "first").expect("held")
            theirs = kazoo.recipe.lock.Lock(client, path, extra_lock_patterns=["-lock-"])
            acquired = threading.Event()
            thread = threading.Thread(target=lambda: theirs.acquire() and acquired.set(), daemon=True)
            thread.start()
            harness.wait_for("Kazoo's contender", lambda: len(_queue(address, path)) == 2, PATIENCE_SECONDS)
            last = _acquire(address, session, path, "last").expect("waiting 2")
            assert not acquired.is_set()
            _release(address, session, path, "first")
            assert acquired.wait(PATIENCE_SECONDS), "Kazoo did not get the lock"
            assert last.messages.empty()
            theirs.release()
            last.expect("held")
            first.end()
            last.end()
            session.close()
    finally:
        client.stop()
        client.close()


def alone_a_contender_keeps_its_place_when_its_member_is_killed(server):
    with harness.Cluster(server) as cluster, contextlib.ExitStack() as stack:
        path, addresses = _fresh("killed"), cluster.command("grpc").split(",")
        killed = cluster.leader()
        other, third = cluster.others(killed)
        at = {member: addresses[member - 1] for member in cluster.numbers()}
        holder, waiter, rival = (stack.enter_context(native.Session(at[member], timeout_ms=TIMEOUT_MS))
                                 for member in (third, killed, third))
        stack.callback(_acquire(at[third], holder, path, "holder").expect("held").end)
        broken = _acquire(at[killed], waiter, path, "waiter").expect("waiting 1")
        behind = _acquire(at[third], rival, path, "rival").expect("waiting 2")
        stack.callback(behind.end)
        before, tokens = _queue(at[third], path), set()
        for target in (other, killed):  # its member is killed while it waits, and again while it holds the lock
            gone = killed if target == other else other
            cluster.kill(gone)
            assert broken.next() == "UNAVAILABLE"
            broken.end()
            waiter = _reattach(at[target], waiter)
            stack.callback(waiter.break_off)
            broken = _acquire(at[target], waiter, path, "waiter")
            if target == other:
                broken.expect("waiting 1")
                assert _queue(at[third], path) == before, "the contender has another place"
                assert _release(at[third], holder, path, "holder")
            broken.expect("held")
            tokens.add(broken.token)
            cluster.restart(gone)
        assert behind.messages.empty(), "the place of the contender before it has changed"
        assert _release(at[killed], waiter, path, "waiter")
        behind.expect("held")
        assert len(tokens) == 1 and behind.token > max(tokens), (tokens, behind.token)


def _reattach(address, old):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return native.Session(address, old.id, old.password, timeout_ms=TIMEOUT_MS)
        except (native.Ended, TimeoutError) as error:
            assert time.monotonic() < deadline and getattr(error, "code", "UNAVAILABLE") == "UNAVAILABLE", error
            time.sleep(0.1)


# --- Programs in several languages -----------------------------------------------------------------


class Program:
    """A process and the lines that it prints."""

    def __init__(self, command, environment=None):
        self.name = os.path.basename(command[-3]) if len(command) > 2 else command[0]
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)

    def expect(self, word):
        """Returns what follows `word`, with which the next line begins."""
        line = self.lines.get(timeout=PATIENCE_SECONDS)
        assert line is not None and line.split()[0] == word, f"{self.name}: {word} was expected, not {line!r}"
        return line.removeprefix(word).strip()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def wait(self):
        assert self.process.wait(PATIENCE_SECONDS) == 0, f"{self.name}: exit status {self.process.returncode}"

    def end(self):
        self.process.kill()
        self.process.wait()


def _python_messages():
    """Generates the classes that examples/python needs, as its README says. Returns their directory."""
    directory = tempfile.mkdtemp(prefix="quorate-examples-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    subprocess.run(["protoc", f"--proto_path={native.PROTO}", f"--python_out={directory}",
                    f"--grpc_python_out={directory}", "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin",
                    *(f"quorate/v1/{name}.proto" for name in ("types", "session", "lock"))], check=True)
    return directory


def _node_packages():
    """Puts the programs of examples/node and their packages into a directory, and returns it."""
    directory = tempfile.mkdtemp(prefix="quorate-examples-node-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    program = os.path.join(directory, "node")
    npm_packages.install(os.path.join(EXAMPLES, "node/package-lock.json"), program)
    for name in os.listdir(os.path.join(EXAMPLES, "node")):
        if name.endswith(".js"):
            shutil.copy(os.path.join(EXAMPLES, "node", name), program)
    return program


PREPARED = {}


def _example(language, name, *arguments):
    """Starts a program of examples/."""
    if language not in PREPARED:
        PREPARED[language] = _python_messages() if language == "python" else _node_packages()
    if language == "python":
        return Program([sys.executable, os.path.join(EXAMPLES, "python", name + ".py"), *arguments],
                       {"PYTHONPATH": PREPARED["python"], "PYTHONDONTWRITEBYTECODE": "1"})
    return Program(["node", os.path.join(PREPARED["node"], name + ".js"), *arguments],
                   {"QUORATE_PROTO": native.PROTO})


def alone_a_lock_goes_from_one_language_to_another_when_its_holder_is_killed(server):
    with harness.Cluster(server) as cluster, contextlib.ExitStack() as stack:
        path, addresses = _fresh("languages"), cluster.command("grpc")
        languages = itertools.cycle(["python", "node"])
        holder = _example(next(languages), "lock", addresses, path)
        stack.callback(holder.end)
        tokens = [int(holder.expect("held"))]
        for _ in range(4):
            waiter = _example(next(languages), "lock", addresses, path)
            stack.callback(waiter.end)
            assert waiter.expect("waiting") == "1"
            holder.process.kill()
            tokens.append(int(waiter.expect("held")))
            holder = waiter
        holder.go_on()
        holder.expect("released")
        holder.wait()
        assert tokens == sorted(set(tokens)), tokens
        assert _queue(addresses.split(",")[0], path) == []


def alone_contenders_in_four_languages_stand_in_one_queue(server):
    with harness.Cluster(server) as cluster, contextlib.ExitStack() as stack:
        path, addresses = _fresh("together"), cluster.command("grpc")
        classes = os.path.join(cluster.parent, "classes")
        jvm.compile_sources(os.path.join(harness.ROOT, "tests/native/recipes/curator"), JARS, classes)
        starts = [lambda: _example("python", "lock", addresses, path),
                  lambda: Program([*jvm.command("Contender", JARS, classes), cluster.hosts(), path]),
                  lambda: Program([CONTENDER, addresses, path]),
                  lambda: _example("node", "lock", addresses, path),
                  lambda: Program([*jvm.command("Contender", JARS, classes), cluster.hosts(), path]),
                  lambda: _example("python", "lock", addresses, path)]
        programs = []
        for i, start in enumerate(starts, 1):
            programs.append(start())
            stack.callback(programs[-1].end)
            harness.wait_for(f"contender {i}", lambda count=i: _count(addresses, path) == count, PATIENCE_SECONDS)
        tokens = []
        for i, program in enumerate(programs):
            states = []
            while not states or not states[-1].startswith("held"):
                states.append(program.lines.get(timeout=PATIENCE_SECONDS))
                assert states[-1] and states[-1].split()[0] in ("waiting", "held"), (program.name, states)
            tokens += [int(word) for word in states[-1].split()[1:]]
            for later in programs[i + 1:]:
                assert not any(line.startswith("held") for line in list(later.lines.queue)), "two hold the lock"
            program.go_on()
            program.expect("released")
        assert len(tokens) == 4 and tokens == sorted(set(tokens)), tokens
        return f"tokens {tokens}"


def _count(addresses, path):
    try:
        return len(_queue(addresses.split(",", maxsplit=1)[0], path))
    except native.Failed:
        return 0  # there is no queue yet


def alone_examples_write_exactly_once_and_miss_no_event_while_members_fail(server):
    count = 3000
    with harness.Cluster(server) as cluster, contextlib.ExitStack() as stack:
        addresses = cluster.command("grpc")
        for language in ("python", "node"):
            watcher = _example(language, "watch", addresses, "/examples-counter")
            stack.callback(watcher.end)
            watcher.expect("watching")
            counter = _example(language, "counter", addresses, str(count))
            stack.callback(counter.end)
            for i in range(1, count + 1):
                assert counter.expect("wrote") == str(i)
                # The programs begin at member 1, and go on at member 2.
                if i == 500:
                    cluster.kill(1)
                if i == 1000:
                    cluster.restart(1)
                if i == 1500:
                    cluster.command("pause", 2)
            cluster.command("resume", 2)
            found, streams = counter.expect("read").split(", over ")
            assert found == f"{count} version {count}" and int(streams.split()[0]) >= 3, (found, streams)
            counter.wait()
            zxids = [_event(watcher, "NODE_CREATED")] + [_event(watcher, "NODE_DATA_CHANGED") for _ in range(count)]
            assert zxids == sorted(set(zxids)), zxids
            with native.Tree(addresses.split(",")[0]) as tree:
                tree.set("/examples-counter", b"end")
                _event(watcher, "NODE_DATA_CHANGED")
                watcher.wait()
                tree.delete("/examples-counter")


def _event(watcher, kind):
    name, zxid = watcher.expect("event").split()
    assert name == f"EVENT_TYPE_{kind}", name
    return int(zxid)
