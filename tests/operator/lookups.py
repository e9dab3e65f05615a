# SPDX-License-Identifier: Apache-2.0
"""Tests a server whose own address is a name that the resolver does not answer at once."""

import os

import preload
import server as servers

SERVES = "info listening for ZooKeeper clients on"
# The keys of the configuration that have names of this machine, in the order of their lookups.
NAMES = {"server.1": "peers.test", "grpcPortAddress": "grpc.test", "clientPortAddress": "clients.test"}


def test_a_start_that_waits_for_the_resolver_says_which_name_it_looks_up():
    with servers.place(3) as (place, port):
        library = preload.build(os.path.join(os.path.dirname(os.path.realpath(__file__)), "slow_lookup.c"), place)
        members = "".join(f"server.{i}={NAMES['server.1'] if i == 1 else '127.0.0.1'}:{port + 200 + i}:{port + 300 + i}\n"
                          for i in (1, 2, 3))
        config = servers.write(f"{place}/zoo.cfg", f"dataDir={place}/data\nclientPort={port + 1}\nadmin.enableServer=false\n"
                               f"clientPortAddress={NAMES['clientPortAddress']}\ngrpcPort={port + 101}\n"
                               f"grpcPortAddress={NAMES['grpcPortAddress']}\n{members}")
        servers.write(f"{place}/data/myid", "1\n")
        for name in NAMES.values():
            servers.write(f"{place}/hangs/{name}", "")
        environment = {"LD_PRELOAD": library, "SLOW_LOOKUP_DIRECTORY": f"{place}/hangs"}
        with servers.Server(config, f"{place}/log", environment) as server:
            for key, name in NAMES.items():
                server.wait_for_log(f"warning the start waits for the address of {name} ({key})")
                assert SERVES not in server.log(), server.log()
                os.unlink(f"{place}/hangs/{name}")
            log = server.wait_for_log(SERVES)
            assert log.count("the start waits for") == len(NAMES), log
        # Names that are resolved at once are not logged.
        with servers.Server(config, f"{place}/log", environment) as server:
            assert "the start waits" not in server.wait_for_log(SERVES)
