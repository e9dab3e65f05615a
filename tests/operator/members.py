# SPDX-License-Identifier: Apache-2.0
"""Tests mistakes with the numbers and addresses of servers, and with the membership."""

import contextlib
import os
import re

import harness
import server as servers
import zkwire as zk


def _newcomer(cluster, number, place):
    """Returns a second server with the number of a member of `cluster` and an empty directory. It runs on this machine,
    so it has other ports."""
    base = cluster.ports.base
    lines = [f"dataDir={cluster.parent}/new{number}", f"clientPort={place + 10}", "clientPortAddress=127.0.0.1",
             "admin.enableServer=false"]
    for i in cluster.numbers():
        peer = place if i == number else base + 200 + i
        lines.append(f"server.{i}=127.0.0.1:{peer}:{base + 400 + i}")
    servers.write(f"{cluster.parent}/new{number}/myid", f"{number}\n")
    config = servers.write(f"{cluster.parent}/new{number}.cfg", "\n".join(lines) + "\n")
    return servers.Server(config, f"{cluster.parent}/new{number}.log")


def test_second_servers_with_the_numbers_of_live_ones_are_refused_and_disturb_nobody():
    with harness.Cluster() as cluster, contextlib.ExitStack() as stack:
        base = cluster.ports.base
        leader = cluster.leader()
        follower = cluster.others(leader)[0]
        before = cluster.pids()
        with zk.Connection(cluster.address(follower)) as connection:
            connection.create("/before", b"x")
        newcomers = {number: stack.enter_context(_newcomer(cluster, number, base + 451 + place))
                     for place, number in enumerate((leader, follower))}
        for number, server in newcomers.items():
            for other in cluster.others(number):
                said = server.wait_for_log(f"server {other} at 127.0.0.1:{base + 200 + other} rejected the "
                                           f"connection: server {number} is alive at 127.0.0.1:{base + 200 + number}; "
                                           "two servers have the same number")
            # The line about what it waits for has the reason, too.
            said = server.wait_for_log("it waits for ")
            assert re.search(rf"not reached: .*server {number} is alive at", said), said
            assert "its data directory is empty" in said and "move this one away" not in said, said
        # The other members log it, too, but only for one of the newcomers, because such lines are limited in rate.
        for number in cluster.numbers():
            cluster.wait_until("a log line of the other members", lambda i=number: "the port for servers is closed: server " in
                               cluster.log(i) and "is alive at" in cluster.log(i))
        assert cluster.pids() == before and cluster.leader() == leader
        for number in cluster.numbers():
            with zk.Connection(cluster.address(number)) as connection:
                connection.create(f"/meanwhile{number}", b"x")
        # The members restart on their directories, while the newcomers go on.
        for number in (follower, leader):
            cluster.restart(number)
            with zk.Connection(cluster.address(number)) as connection:
                connection.sync()
                assert set(connection.children("/")) >= {"before", "meanwhile1", "meanwhile2", "meanwhile3"}
        for number in cluster.numbers():
            said = cluster.log(number)
            assert "later data directory" not in said and "move this one away" not in said, said


def write_config(directory, base, number, voters, extra=()):
    """Writes the configuration of server `number`, with a server line for each of `voters`; without any for a single
    server."""
    lines = [f"dataDir={directory}/{number}", f"clientPort={base + number}", "clientPortAddress=127.0.0.1",
             "admin.enableServer=false",
             f"grpcPort={base + 100 + number}", "4lw.commands.whitelist=*", *extra]
    if len(voters) > 1:
        lines += [f"server.{i}=127.0.0.1:{base + 200 + i}:{base + 400 + i}" for i in voters]
        servers.write(f"{directory}/{number}/myid", f"{number}\n")
    return servers.write(f"{directory}/{number}.cfg", "\n".join(lines) + "\n")


def _start(stack, directory, base, number, voters):
    config = write_config(directory, base, number, voters)
    return stack.enter_context(servers.Server(config, f"{directory}/{number}.log"))


def stop(server):
    """Stops the server by SIGTERM."""
    server.process.terminate()
    assert server.process.wait(timeout=servers.START_SECONDS) == 0, server.log()


def _restored(directory, number, voters, source):
    """Makes the directory of a member from that of a stopped member. Returns the output of `quorate restore`."""
    os.rename(f"{directory}/{number}", f"{directory}/{number}.before")
    servers.write(f"{directory}/{number}/myid", f"{number}\n")
    status, output, errors = servers.quorate("restore", "--config", f"{directory}/{number}.cfg",
                                             "--from-member", source)
    assert status == 0, (output, errors)
    return output


def test_a_single_servers_data_in_a_cluster_of_three_is_recognised_and_can_be_moved_there():
    three = (1, 2, 3)
    with servers.place(3) as (directory, base), contextlib.ExitStack() as stack:
        with servers.Server(write_config(directory, base, 1, (1,)), f"{directory}/single.log") as single:
            single.wait_for_log("has caught up with its leader")
            with zk.Connection(f"127.0.0.1:{base + 1}") as connection:
                connection.create("/kept", b"data")
            stop(single)
        # The mistake: server lines, and two empty members.
        said = servers.refusal(write_config(directory, base, 1, three), status=servers.WRONG_DATA_DIRECTORY)
        assert "the members of this cluster are voters 1, but the server lines of the configuration name voters " \
            "1, 2, 3" in said, said
        assert "`quorate restore --from-member`" in said, said
        empty = [_start(stack, directory, base, number, three) for number in (2, 3)]
        for server in empty:
            said = server.wait_for_log("it waits for ")
            assert "a new cluster begins when all of them are there; not reached: server 1 " \
                f"(127.0.0.1:{base + 201}: Connection refused)" in said, said
        for server in empty:
            stop(server)
        # Does what the message advises.
        source = f"{directory}/source"
        os.rename(f"{directory}/1", source)
        os.makedirs(f"{directory}/1")
        for number in three:
            said = _restored(directory, number, three, source)
            assert "Nothing is lost: it was the only voter of its cluster" in said, said
        for server in [_start(stack, directory, base, number, three) for number in three]:
            server.wait_for_log("has caught up with its leader")
        for number in three:
            with zk.Connection(f"127.0.0.1:{base + number}") as connection:
                assert connection.get("/kept")[0] == b"data"


def test_a_majority_of_disks_is_lost_and_the_last_one_has_the_data():
    three = (1, 2, 3)
    with servers.place(3) as (directory, base), contextlib.ExitStack() as stack:
        members = [_start(stack, directory, base, number, three) for number in three]
        for server in members:
            server.wait_for_log("has caught up with its leader")
        with zk.Connection(f"127.0.0.1:{base + 3}") as connection:
            for i in range(20):
                connection.create(f"/kept{i}", b"data")
            # Ensures that server 3 has all writes, because a majority without it may have acknowledged them.
            connection.sync()
            last = connection.exists("/kept19").czxid
        for server in members:
            server.process.kill()
            server.process.wait()
        for number in (1, 2):
            os.rename(f"{directory}/{number}", f"{directory}/lost{number}")
            os.makedirs(f"{directory}/{number}")
            servers.write(f"{directory}/{number}/myid", f"{number}\n")
        # The last server cannot elect a leader together with two empty ones, and says so.
        again = [_start(stack, directory, base, number, three) for number in three]
        said = again[2].wait_for_log("it waits for ")
        assert "a leader: enough voters for a majority are reached, and none of them is elected" in said, said
        for server in again:
            stop(server)
        source = f"{directory}/source"
        os.rename(f"{directory}/3", source)
        os.makedirs(f"{directory}/3")
        before = _contents(source)
        for number in three:
            said = _restored(directory, number, three, source)
            assert "Made from the data of member 3 of cluster " in said, said
            found = re.search(r"up to zxid 0x([0-9a-f]+)\.\nMay be lost: whatever the other members acknowledged "
                              r"behind zxid 0x\1 ", said)
            assert found and int(found.group(1), 16) >= last, (said, last)
        assert _contents(source) == before, "the source was changed"
        for server in [_start(stack, directory, base, number, three) for number in three]:
            server.wait_for_log("has caught up with its leader")
        for number in three:
            with zk.Connection(f"127.0.0.1:{base + number}") as connection:
                assert {f"kept{i}" for i in range(20)} <= set(connection.children("/"))
                connection.create(f"/new{number}", b"x")


def _contents(directory):
    contents = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(parent, name), "rb") as file:
                contents[os.path.join(parent, name)] = file.read()
    return contents


def test_edited_server_lines_are_refused_and_the_real_voters_are_shown():
    three, five = (1, 2, 3), (1, 2, 3, 4, 5)
    with servers.place(5) as (directory, base), contextlib.ExitStack() as stack:
        members = [_start(stack, directory, base, number, three) for number in three]
        for server in members:
            server.wait_for_log("has caught up with its leader")
        stop(members[0])
        said = servers.refusal(write_config(directory, base, 1, five), status=servers.WRONG_DATA_DIRECTORY)
        assert "the members of this cluster are voters 1, 2, 3, but the server lines of the configuration name " \
            "voters 1, 2, 3, 4, 5. Restore those lines" in said, said
        # A server that is not a member is told so.
        fourth = _start(stack, directory, base, 4, five)
        said = fourth.wait_for_log(f"server 2 at 127.0.0.1:{base + 202} rejected the connection: the configuration "
                                   "of server 2 has no other server 4")
        # With its former lines the server starts, and shows its members.
        _start(stack, directory, base, 1, three).wait_for_log("has caught up with its leader")
        for number in three:
            address = f"127.0.0.1:{base + number}"
            with zk.Connection(address) as connection:
                config = connection.get("/zookeeper/config")[0].decode()
            for said in (zk.four_letter(address, "conf"), config):
                found = set(re.findall(r"^server\.(\d+)=", said, re.M))
                assert found == {"1", "2", "3"}, said


def test_swapped_server_lines_are_explained():
    three = (1, 2, 3)
    with servers.place(3) as (directory, base), contextlib.ExitStack() as stack:
        for number in (2, 3):
            _start(stack, directory, base, number, three)
        config = write_config(directory, base, 1, three)
        with open(config, encoding="utf-8") as file:
            text = file.read()
        two, other = (f"127.0.0.1:{base + 200 + i}:{base + 400 + i}" for i in (2, 3))
        text = text.replace(two, "\0").replace(other, two).replace("\0", other)
        first = stack.enter_context(servers.Server(servers.write(config, text), f"{directory}/1.log"))
        for number, other in ((2, 3), (3, 2)):
            said = first.wait_for_log(f"server {number} at 127.0.0.1:{base + 200 + other} rejected the connection: "
                                      f"server {other} answers at the address of server {number}")
        assert "are two swapped?" in said, said
