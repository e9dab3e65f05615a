# SPDX-License-Identifier: Apache-2.0
"""Tests the limits of tenants (docs/guides/limits.md) with clients of gRPC that misbehave, in each way for which there is
a limit, while clients of another address and identity are served. The tests fail if the limit is switched off.

The clients of gRPC that misbehave connect from the addresses 127.0.1.*, by a relay; each has the address of the others or
their identity."""

import contextlib
import threading
import time

import grpc
import native
import relay
import tenants
from native import types
from native import session as sessions

TENANT_ADDRESSES = [f"127.0.1.{number}" for number in range(1, 9)]
# The credential of all clients that misbehave where an identity is limited.
APP = (native.digest("app:password"),)
OTHER = (native.digest("other:password"),)


def _grpc(cluster):
    return cluster.grpc(1)


@contextlib.contextmanager
def _served(server, *settings):
    """Yields (cluster, innocent): one server with these settings, and a client of ZooKeeper's protocol beside."""
    with tenants.one_server(server, *settings) as cluster:
        innocent = tenants.Innocent(cluster.address(1), count=20)
        yield cluster, innocent
        innocent.close()


class Calls:
    """Makes unary calls in several threads until it is closed, and counts their outcomes."""

    def __init__(self, address, metadata, threads=4):
        self.address, self.metadata = address, metadata
        self.ending = threading.Event()
        self.succeeded, self.refusals, self.others = 0, [], []
        self.lock = threading.Lock()
        self.started = time.monotonic()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        with native.Tree(self.address) as client:
            while not self.ending.is_set():
                try:
                    client.get("/", metadata=self.metadata)
                    with self.lock:
                        self.succeeded += 1
                except native.Failed as error:
                    with self.lock:
                        (self.refusals if error.code == "RESOURCE_EXHAUSTED" else self.others).append(str(error))

    def end(self):
        """Returns for how many seconds calls were made."""
        self.ending.set()
        for thread in self.threads:
            thread.join()
        return time.monotonic() - self.started


def alone_calls_of_grpc_above_the_rate_of_an_identity(server):
    rate = 200
    with _served(server, f"limits.requestsPerSecond={rate}") as (cluster, innocent), \
            contextlib.ExitStack() as stack:
        relays = [stack.enter_context(relay.Relay(_grpc(cluster), source)) for source in TENANT_ADDRESSES[:4]]
        floods = [Calls(each.address, APP, threads=2) for each in relays]
        tenants.await_(lambda: any(flood.refusals for flood in floods), "calls are refused")
        note = innocent.check()
        with native.Tree(_grpc(cluster)) as client:
            for _ in range(20):
                client.get("/", metadata=OTHER)
        seconds = max(flood.end() for flood in floods)
        others, refusals = (sum((getattr(flood, kind) for flood in floods), []) for kind in ("others", "refusals"))
        succeeded = sum(flood.succeeded for flood in floods)
        assert not others, others[:3]
        assert all("limits.requestsPerSecond" in message for message in refusals), refusals[:3]
        # Each address might have as much: it is the identity that is limited. The tokens of one second are there at once.
        assert succeeded <= rate * (seconds + 1) * 1.1, f"{succeeded} calls in {seconds:.1f} s"
        assert succeeded >= rate, f"only {succeeded} calls"
        assert tenants.reached(cluster.address(1), "requests_delayed") > 0
        tenants.check_log(cluster, "limits.requestsPerSecond")
        return f"{succeeded / seconds:.0f} calls/s, {len(refusals)} refused, {note}"


def alone_a_session_of_grpc_above_the_rate_loses_nothing(server):
    rate, count, in_message = 300, 1000, 50
    with _served(server, f"limits.requestsPerSecond={rate}") as (cluster, innocent), \
            relay.Relay(_grpc(cluster), *TENANT_ADDRESSES) as away, \
            native.Session(away.address, metadata=APP, timeout_ms=4000) as flood:
        flood.write(1, native.create("/flood"))
        started = time.monotonic()
        ids = []
        for first in range(2, count + 2, in_message):
            ids += flood.send(*(sessions.Request(write=sessions.Request.Write(
                sequence=sequence, operations=[native.set_("/flood", b"%d" % sequence)]))
                for sequence in range(first, first + in_message)))
        note = innocent.check()
        with native.Session(_grpc(cluster), metadata=OTHER) as other:  # is not behind the flood
            assert not other.get("/").error
            other.close()
        for number, request_id in enumerate(ids):
            answer = flood.answer(request_id, seconds=60)
            assert not answer.error, f"write {number}: {native.name_of(answer.error)}"
            assert answer.write.results[0].stat.version == number + 1, "a write is lost, or made twice"
        seconds = time.monotonic() - started
        least = (count - rate) / rate * 0.95
        assert seconds >= least, f"{count} requests took {seconds:.1f} s, at most {rate} a second are allowed"
        tenants.check_log(cluster, "limits.requestsPerSecond")
        flood.close()
        return f"{count / seconds:.0f} requests/s, {note}"


def alone_streams_of_an_identity(server):
    limit = 5
    with _served(server, f"limits.connectionsPerIdentity={limit}") as (cluster, innocent), \
            relay.Relay(_grpc(cluster), *TENANT_ADDRESSES) as away, contextlib.ExitStack() as stack:
        def opens(metadata):
            try:
                return stack.enter_context(native.Session(away.address, metadata=metadata))
            except native.Ended as end:
                assert end.code == "RESOURCE_EXHAUSTED" and "limits.connectionsPerIdentity" in str(end), end
                return None

        opened = [opens(APP) for _ in range(4 * limit)]
        served = [one for one in opened if one]
        assert len(served) == limit, f"{len(served)} sessions of one identity"
        assert opens(OTHER), "another identity is refused"
        tenants.check_log(cluster, "limits.connectionsPerIdentity")
        served[0].close()
        tenants.await_(lambda: opens(APP), "a session takes the place of one that was closed")
        return innocent.check()


def alone_watches_of_an_identity_of_grpc(server):
    limit = 200
    with _served(server, f"limits.watches={limit}") as (cluster, innocent), \
            relay.Relay(_grpc(cluster), *TENANT_ADDRESSES) as away, contextlib.ExitStack() as stack:
        flood = [stack.enter_context(native.Session(away.address, metadata=APP)) for _ in range(4)]
        outcomes = []
        for one in flood:
            ids = one.send(*(sessions.Request(watch=sessions.Request.Watch(
                watch_id=number, path=f"/none/{number}", scope=types.WATCH_SCOPE_NODE)) for number in range(1, limit + 1)))
            outcomes += [native.name_of(one.answer(request_id).error) for request_id in ids]
        refused = outcomes.count("TOO_LARGE")
        assert refused and len(outcomes) - refused <= limit, f"{len(outcomes) - refused} watches were set"
        assert set(outcomes) == {"OK", "TOO_LARGE"}, set(outcomes)
        with native.Tree(away.address) as client:
            stream = client.channel.unary_stream(
                "/quorate.v1.TreeService/Watch", native.tree.WatchRequest.SerializeToString,
                native.tree.WatchResponse.FromString)(
                    native.tree.WatchRequest(path="/none", scope=types.WATCH_SCOPE_NODE), timeout=native.SECONDS,
                    metadata=APP)
            try:
                next(stream)
                raise AssertionError("a stream of watches is above the limit and served")
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "limits.watches" in error.details(), error
        with native.Session(away.address, metadata=OTHER) as other:
            assert not other.watch(1, "/none", types.WATCH_SCOPE_NODE).error, "another identity is refused"
        assert tenants.reached(cluster.address(1), "watches_refused") >= refused
        tenants.check_log(cluster, "limits.watches")
        for one in flood:
            one.close()
        with native.Session(away.address, metadata=APP) as again:
            tenants.await_(lambda: not again.watch(again.next_id, "/none", types.WATCH_SCOPE_NODE).error,
                           "the sessions are closed, and the identity may set watches again")
        return innocent.check()


def alone_ephemerals_of_an_identity_of_grpc(server):
    limit, count = 100, 80
    with _served(server, f"limits.ephemerals={limit}") as (cluster, innocent), \
            relay.Relay(_grpc(cluster), *TENANT_ADDRESSES) as away, contextlib.ExitStack() as stack:
        flood = [stack.enter_context(native.Session(away.address, metadata=APP)) for _ in range(4)]
        outcomes = []
        for one in flood:
            ids = one.send(*(sessions.Request(write=sessions.Request.Write(
                sequence=sequence, operations=[native.create("/e-", b"", types.CREATE_MODE_EPHEMERAL_SEQUENTIAL)]))
                for sequence in range(1, count + 1)))
            outcomes += [native.name_of(one.answer(request_id).error) for request_id in ids]
        assert outcomes.count("OK") == limit, f"{outcomes.count('OK')} ephemerals were created"
        assert outcomes.count("QUOTA_EXCEEDED") == 4 * count - limit, set(outcomes)
        with native.Session(away.address, metadata=OTHER) as other:
            assert not other.write(1, native.create("/other", b"", types.CREATE_MODE_EPHEMERAL)).error
            other.close()
        tenants.check_log(cluster, "limits.ephemerals")
        flood[0].close()
        with native.Session(away.address, metadata=APP) as again:
            numbers = iter(range(1, 1 << 20))
            create = native.create("/again", b"", types.CREATE_MODE_EPHEMERAL)
            tenants.await_(lambda: not again.write(next(numbers), create).error,
                           "ephemerals of a closed session no longer count")
            again.close()
        return innocent.check()
