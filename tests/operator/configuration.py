# SPDX-License-Identifier: Apache-2.0
"""Tests configuration files with mistakes, and the start of a server."""

import os
import re
import shutil
import signal
import socket
import subprocess

import server as servers

SERVES = "listening for ZooKeeper clients on"


def _base(directory, port):
    return (f"dataDir={directory}/data\nclientPort={port + 1}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\n")


def test_a_directory_in_place_of_the_configuration_is_named():
    with servers.place() as (directory, _):
        said = servers.refusal(directory)
        assert f"{directory}: the configuration file cannot be read: Is a directory" in said, said


def test_a_configuration_is_read_once_so_that_it_may_be_a_pipe():
    with servers.place() as (directory, port):
        pipe = f"{directory}/pipe"
        os.mkfifo(pipe)
        with servers.Server(pipe, f"{directory}/log") as server:
            with open(pipe, "w", encoding="ascii") as file:
                file.write(_base(directory, port) + "log.format=json\n")
            assert server.wait_for_log(SERVES).startswith('{"time":'), server.log()
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log(f"SIGHUP: {pipe} is no regular file, and is not read again")
            server.process.terminate()
            assert server.process.wait(servers.START_SECONDS) == 0, server.log()


def test_a_configuration_without_an_end_is_refused():
    with servers.place():
        said = servers.refusal("/dev/zero")
        assert "/dev/zero: the configuration file cannot be read: the file is larger than 4194304 bytes" in said, said


def test_a_missing_configuration_is_named():
    with servers.place() as (directory, _):
        said = servers.refusal(f"{directory}/zoo.cfg")
        assert f"{directory}/zoo.cfg: the configuration file cannot be read: No such file" in said, said


def test_an_unreadable_file_is_named_with_the_reason_and_the_user():
    if os.geteuid() != 0:
        return "not run as root: files cannot be made unreadable to another user"
    with servers.place() as (directory, port):
        os.chmod(directory, 0o755)
        # Other users may have no access to the build's directory.
        program = shutil.copy(servers.quorated(), f"{directory}/quorated")
        os.chmod(program, 0o755)
        config = servers.write(f"{directory}/zoo.cfg", _base(directory, port), 0o600)
        said = servers.refusal(config, user="nobody", program=program)
        assert f"{config}: the configuration file cannot be read: Permission denied" in said, said
        assert "running as user nobody" in said, said
        members = "".join(f"server.{i}=127.0.0.1:{port + 200 + i}:{port + 300 + i}\n" for i in (1, 2, 3))
        servers.write(config, _base(directory, port) + members, 0o644)
        servers.write(f"{directory}/data/myid", "1\n", 0o600)
        said = servers.refusal(config, user="nobody", program=program)
        assert f"{directory}/data/myid: the file with the number of this server cannot be read" in said, said
        assert "Permission denied (running as user nobody" in said, said
    return ""


def test_a_mistyped_key_is_shown_with_the_one_that_is_meant():
    with servers.place() as (directory, port):
        config = servers.write(f"{directory}/zoo.cfg", f"dataDir={directory}\nclinetPort={port + 1}\n")
        said = servers.refusal(config)
        assert "clientPort: it is missing" in said, said
        assert f"{config}:2: clinetPort: not a key that this server knows" in said, said
        assert "did you mean clientPort?" in said, said


def test_an_unknown_form_of_the_log_is_refused():
    with servers.place() as (directory, port):
        config = servers.write(f"{directory}/zoo.cfg", _base(directory, port) + "log.format=xml\n")
        said = servers.refusal(config)
        assert f'{config}:5: log.format: "xml" is not allowed; it has to be text or json' in said, said


def test_two_servers_at_one_address_are_refused():
    with servers.place() as (directory, port):
        members = f"server.1=127.0.0.1:{port + 201}:1\nserver.2=127.0.0.1:{port + 201}:2\n"
        servers.write(f"{directory}/data/myid", "1\n")
        said = servers.refusal(servers.write(f"{directory}/zoo.cfg", _base(directory, port) + members))
        assert f"server.2: server.1 has the same address, 127.0.0.1:{port + 201}" in said, said


def test_the_exit_status_says_which_directory_or_port_cannot_be_used():
    with servers.place() as (directory, port), socket.socket() as holder:
        servers.write(f"{directory}/data/myid", "1\n")
        members = "".join(f"server.{i}=127.0.0.1:{port + 200 + i}:{port + 300 + i}\n" for i in (1, 2, 3))
        config = servers.write(f"{directory}/zoo.cfg", _base(directory, port) + members)
        # As servers do, so that a closed connection of another test does not block the port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port + 201))
        holder.listen()
        said = servers.refusal(config, status=servers.NO_PEER_PORT)
        assert f"127.0.0.1:{port + 201}" in said and "in use" in said, said
        shutil.rmtree(f"{directory}/data/checkpoints")
        servers.write(f"{directory}/data/checkpoints", "a file in the place of a directory")
        said = servers.refusal(config, status=servers.WRONG_DATA_DIRECTORY)
        assert f"{directory}/data/checkpoints" in said, said


def test_one_port_for_two_protocols_is_refused():
    with servers.place() as (directory, port):
        said = servers.refusal(servers.write(f"{directory}/zoo.cfg",
                                             _base(directory, port) + f"grpcPort={port + 1}\n"))
        assert f"grpcPort: {port + 1} is the clientPort too" in said, said


def test_the_grpc_port_is_of_this_machine_only_unless_configured():
    with servers.place() as (directory, port):
        text = f"dataDir={directory}/data\nclientPort={port + 1}\ngrpcPort={port + 101}\nadmin.enableServer=false\n"
        for line, wanted in (("", "127.0.0.1"), ("grpcPortAddress=0.0.0.0\n", "0.0.0.0")):
            config = servers.write(f"{directory}/zoo.cfg", text + line)
            with servers.Server(config, f"{directory}/log") as server:
                server.wait_for_log(SERVES)
                assert servers.listening(port + 101) == [wanted], server.log()
            os.remove(f"{directory}/log")


def test_few_open_files_are_warned_of():
    with servers.place() as (directory, port):
        config = servers.write(f"{directory}/zoo.cfg", _base(directory, port))
        script = f"ulimit -n 1000; exec {servers.quorated()} {config}"
        with open(f"{directory}/log", "wb") as log:
            process = subprocess.Popen(["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        server = servers.Server.__new__(servers.Server)
        server.process, server.log_path = process, f"{directory}/log"
        with server:
            assert "the limit of open files is 1000" in server.wait_for_log(SERVES)


def test_the_first_line_of_the_log_has_the_version_and_each_line_a_time_with_zone_and_a_level():
    with servers.place() as (directory, port):
        config = servers.write(f"{directory}/zoo.cfg", _base(directory, port))
        with servers.Server(config, f"{directory}/log") as server:
            lines = server.wait_for_log(SERVES).splitlines()
        version = subprocess.run([servers.quorated(), "--version"], check=True, text=True,
                                 capture_output=True).stdout.strip()
        assert re.fullmatch(r"quorated \d+\.\d+\.\d+ commit=\S+ build=opt", version), version
        assert version.removeprefix("quorated ") in lines[0], lines[0]
        assert version.split()[1] == servers.quorate("--version")[1].split()[1]
        for line in lines:
            assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (info|warning|error) ", line), line
        fatal = servers.refusal(f"{directory}/none")
        assert re.search(r"^\d{4}-\S+ critical .*none: the configuration file", fatal, re.M), fatal
