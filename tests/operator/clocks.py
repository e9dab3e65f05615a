# SPDX-License-Identifier: Apache-2.0
"""Tests servers whose clocks are wrong, or were wrong before."""

import contextlib
import os
import re

import harness
import members
import server as servers
import zkwire as zk

LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def _off(days):
    """Returns the environment of a process whose wall clock is off by so many days."""
    if not os.path.exists(LIBRARY):
        raise harness.Skipped(f"{LIBRARY} is not there: apt-get install libfaketime")
    return {"LD_PRELOAD": LIBRARY, "FAKETIME": f"{days:+}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def test_a_start_with_a_clock_in_the_future_does_not_lock_the_members_number():
    three = (1, 2, 3)
    ahead = _off(400)
    with servers.place(3) as (directory, base), contextlib.ExitStack() as stack:
        def start(number, environment=None):
            config = members.write_config(directory, base, number, three)
            return stack.enter_context(servers.Server(config, f"{directory}/{number}.log", environment))

        def write(path):
            """Writes through the first member, which may have to start itself again with a greater incarnation."""
            def is_written():
                try:
                    with zk.Connection(f"127.0.0.1:{base + 1}") as connection:
                        return connection.exists(path) or connection.create(path, b"")
                except (zk.Closed, zk.SessionRefused, OSError):
                    return False
            servers.wait_until(f"written: {path}", is_written)

        others = [start(number) for number in (2, 3)]
        # The first start of the first member has the wrong clock.
        first = start(1, ahead)
        first.wait_for_log("has caught up with its leader")
        write("/ahead")
        members.stop(first)
        # The clock is right again. The first member starts with the same directory,
        first = start(1)
        first.wait_for_log("has caught up with its leader")
        write("/right")
        members.stop(first)
        # then with a rebuilt directory,
        status, output, errors = servers.quorate("rebuild", f"{directory}/1", "--yes")
        assert status == 0, (output, errors)
        first = start(1)
        first.wait_for_log("counts as a member again")
        write("/rebuilt")
        members.stop(first)
        # and then with an empty one.
        os.rename(f"{directory}/1", f"{directory}/lost")
        first = start(1)
        first.wait_for_log("counts as a member again")
        write("/lost")
        with zk.Connection(f"127.0.0.1:{base + 2}") as connection:
            connection.sync()
            assert set(connection.children("/")) >= {"ahead", "right", "rebuilt", "lost"}
        for server in (*others, first):
            assert server.process.poll() is None, server.log()


def test_a_clock_that_is_off_from_the_leaders_is_said():
    with servers.place(3) as (directory, base), contextlib.ExitStack() as stack:
        def start(number, environment=None):
            config = members.write_config(directory, base, number, (1, 2, 3))
            return stack.enter_context(servers.Server(config, f"{directory}/{number}.log", environment))

        start(1), start(2)
        off = start(3, _off(-2))
        said = off.wait_for_log("has caught up with its leader")
        # A follower logs the difference, whichever member leads.
        leader = 3 if "leading in term" in said else 0
        watched = f"{directory}/{1 if leader == 3 else 3}.log"

        def is_said():
            # The first member may not serve clients yet.
            with contextlib.suppress(zk.Closed, zk.SessionRefused, OSError):
                with zk.Connection(f"127.0.0.1:{base + 1}") as connection:
                    connection.create("/clock-", b"", zk.SEQUENTIAL)
            with open(watched, encoding="utf-8") as log:
                # The difference is two days, less the delay of a command.
                return re.search(r"this server's clock is 172[78]\d{5} ms (ahead of|behind) that of the leader, "
                                 r"server \d; check both clocks", log.read())
        servers.wait_until("a warning that the clocks differ", is_said)
