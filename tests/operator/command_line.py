# SPDX-License-Identifier: Apache-2.0
"""Tests the command line `quorate`: JSON, defaults from files, completion, data from files, and the check of a
backup."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile

import harness
import quorate_cli
import server as servers
import zkwire as zk

SERVES = "listening for ZooKeeper clients on"
NOBODY = "127.0.0.1:1"
SESSION_TIMEOUT_MS = 600_000


def _run(*arguments, data=b"", environment=None):
    """Runs `quorate`. Returns (exit status, standard output, standard error); the outputs are bytes."""
    result = quorate_cli.run(*arguments, typed=data, environment={"QUORATE_CONFIG": "", **(environment or {})})
    return result.returncode, result.stdout, result.stderr


@contextlib.contextmanager
def _stopped_member():
    """Returns (a backup, the dataDir of the stopped member that has made it, a log with a transaction)."""
    with tempfile.TemporaryDirectory(prefix="quorate-operator-") as directory:
        with harness.Cluster(size=1) as cluster:
            with zk.Connection(cluster.address(1)) as connection:
                connection.create("/one", b"1")
                connection.call(zk.MULTI, zk.request_multi([
                    (zk.CREATE, zk.request_create("/two", b"22")), (zk.DELETE, zk.request_delete("/one", -1))]))
                connection.close()
            status, _, errors = _run("--server", cluster.command("grpc"), "backup", f"{directory}/backup")
            assert status == 0, errors
            data = cluster.member_dir(1)
            cluster.command("down")
            shutil.copytree(data, f"{directory}/data")
        yield f"{directory}/backup", f"{directory}/data"


def _commands(line="quorate"):
    """Returns all commands, with the names of their groups before them."""
    names = _run("completion", "words", f"{line} ")[1].decode().split()
    if not names or line.endswith(" shell"):
        return [line.removeprefix("quorate ")]
    return [one for name in names if name != "help" for one in _commands(f"{line} {name}")]


def test_all_commands_print_json_when_they_succeed_and_when_they_fail():
    with _stopped_member() as (backup, data), \
            harness.Cluster(settings=[f"maxSessionTimeout={SESSION_TIMEOUT_MS}"]) as cluster, \
            tempfile.TemporaryDirectory(prefix="quorate-operator-") as directory:
        where = cluster.command("grpc")
        line = f"127.0.0.1:{cluster.ports.base + 203}:{cluster.ports.base + 403}"
        # Nobody is connected to this session later; it lives on until it is closed, for as long as all commands together
        # may take.
        with zk.Connection(cluster.address(1), timeout_ms=SESSION_TIMEOUT_MS) as connection:
            kept = f"0x{connection.session_id:x}"
        new = ("--data-dir", f"{directory}/new", "--member", 1, "--members", "1,2,3")
        # For each command: words with which it succeeds, words with which it fails quickly, and whether its output has
        # several documents, one on each line.
        table = {
            "doctor": (["--seconds", 1], ["--seconds", 1], False),
            "top": (["--count", 1, "--interval", 1], ["--count", 1], True),
            "slow": ([], ["--member", 9], False),
            "status": ([], [], False), "members": ([], [], False),
            "member safe-to-stop": ([1], [1], False),
            "member demote": ([3], [3, "--timeout", 1], False), "member promote": ([3], [3, "--timeout", 1], False),
            "member add": ([3, line], [3, line, "--timeout", 1], False),
            "member move": ([3, line], [3, line, "--timeout", 1], False),
            "member remove": ([9], [9, "--timeout", 1], False),
            "member replace": ([3, "--with", line], [3, "--with", line, "--timeout", 1], False),
            "member status": ([], [], False),
            "sessions list": ([], ["--after", "none"], False), "sessions show": ([kept], [kept], False),
            "sessions close": ([kept], [kept], False),
            "rolling-restart": (["--dry-run"], ["--dry-run"], False),
            "shell": (["--", "ls", "/"], ["--timeout", 1, "--", "ls", "/"], True),
            "watch": (["/watched", "--after", "1", "--count", 1], ["relative"], True),
            "lock": (["/lock", "--", "echo", "{}"], ["relative", "--", "echo", "{}"], True),
            # This command never ends by itself, so it has a test of its own.
            "elect": ([], ["relative", "--", "echo", "{}"], True),
            "backup": ([f"{directory}/backup"], [backup], False),
            "restore": ([backup, *new], ["/none", *new], False),
            "bench": (["write", "--servers", cluster.address(1), "--seconds", 1, "--connections", 1],
                      ["write", "--servers", "none"], False),
            "verify": ([data], ["/none"], False), "rebuild": ([f"{directory}/new", "--yes"], ["/none", "--yes"], False),
            "recover": (["--force-new-cluster", "--yes", data],
                        ["--force-new-cluster", "/none"], False),
            "log dump": ([data], ["/none"], False), "snapshot dump": ([backup], ["/none"], False),
            "snapshot diff": ([backup, backup], ["/none", backup], False),
            "export": ([backup, "--zookeeper-snapshot", f"{directory}/zookeeper"],
                       ["/none", "--zookeeper-snapshot", f"{directory}/other"], False),
            "import": (["--check", "--zookeeper-data", f"{directory}/zookeeper"],
                       ["--check", "--zookeeper-data", "/none"], False),
            "completion bash": ([], ["surplus"], False), "completion zsh": ([], ["surplus"], False),
            "completion fish": ([], ["surplus"], False),
            "certs create": ([f"{directory}/certs", "127.0.0.1"], [f"{directory}/certs", "not a host"], False),
            "certs client": ([f"{directory}/certs", "alice"], ["/none", "alice"], False),
            "certs show": ([f"{directory}/certs/ca.pem"], ["/none"], False),
        }
        assert sorted(table) == sorted(_commands()), _commands()
        assert _run("--server", where, "shell", "create", "/watched")[0] == 0
        for name in table:
            good, bad, is_lines = table[name]
            if name != "elect":
                status, output, errors = _run("--json", "--server", where, *name.split(), *good)
                # The doctor warns of servers that were started just now, and may find more on a busy machine.
                assert status in ((1, 3) if name == "doctor" else (0,)), f"{name}: {errors.decode()}"
                _documents(name, output, is_lines)
            # Without an answer, some commands would go on trying.
            other = where if name in ("watch", "lock", "elect") else NOBODY
            status, output, errors = _run("--json", "--server", other, *name.split(), *bad)
            assert status != 0, f"{name} {bad}: it succeeds: {output}"
            _documents(name, output, is_lines, may_be_none=True)
            _error(name, status, output, errors, is_lines)
            # Arguments that the command line does not allow.
            status, output, errors = _run(*name.split(), "--json", "--no-such-option")
            assert status == 2 and not output, f"{name}: {output}"
            _error(name, status, output, errors, False)
        for words in (["nonsense"], [], ["log"]):
            status, output, errors = _run("--json", *words)
            assert status == 2 and not output, (words, output)
            _error("nonsense", status, output, errors, False)
        return f"{len(table)} commands"


def test_the_leader_of_an_election_prints_json_only():
    with harness.Cluster() as cluster, tempfile.TemporaryDirectory(prefix="quorate-operator-") as directory:
        with open(f"{directory}/output", "wb") as output, open(f"{directory}/errors", "wb") as errors:
            process = subprocess.Popen(
                [quorate_cli.PROGRAM, "--json", "--server", cluster.command("grpc"), "elect", "/elect", "--", "sh", "-c",
                 "trap 'exit 0' TERM; echo '{\"leads\": true}'; while :; do sleep 0.05; done"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=dict(os.environ, QUORATE_CONFIG=""))
        try:
            servers.wait_until("elected", lambda: _bytes_of(f"{directory}/output").endswith(b"\n"))
            process.terminate()
            status = process.wait(timeout=servers.START_SECONDS)
        finally:
            process.kill()
            process.wait()
        assert status == 0, _bytes_of(f"{directory}/errors")
        assert json.loads(_bytes_of(f"{directory}/output")) == {"leads": True}
        # Leaves out the shell's messages about its own child, which are not lines of quorate.
        assert b"quorate" not in _bytes_of(f"{directory}/errors"), _bytes_of(f"{directory}/errors")


def _bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def _documents(name, output, is_lines, may_be_none=False):
    text = output.decode()
    if may_be_none and not text:
        return
    try:
        for document in text.splitlines() if is_lines else [text]:
            json.loads(document)
    except ValueError as error:
        raise AssertionError(f"{name}: no JSON: {text[:500]}") from error


def _error(name, status, output, errors, is_lines):
    lines = errors.decode().splitlines()
    if is_lines and output and not lines:
        assert "error" in json.loads(output.splitlines()[-1]), f"{name}: {output}"
        return
    assert lines, f"{name}: standard error is empty"
    try:
        error = json.loads(lines[-1])["error"]
    except (ValueError, TypeError, KeyError) as problem:
        raise AssertionError(f"{name}: the last line is no error: {lines[-1]}") from problem
    assert set(error) == {"command", "code", "message"} and error["message"], error
    assert (error["code"] == "INVALID_ARGUMENT") == (status == 2), (name, status, error)


def test_a_backup_is_verified_and_each_damage_is_found():
    with _stopped_member() as (backup, _):
        status, output, errors = _run("--json", "verify", backup)
        facts = json.loads(output)
        assert status == 0 and facts["whole"] and facts["bytes"] == os.path.getsize(backup), (facts, errors)
        assert facts["znodes"] >= 2 and facts["voters"] == [1] and len(facts["cluster_id"]) == 32, facts
        status, output, _ = _run("verify", backup)
        assert status == 0 and b"whole: `quorate restore` can make members from it" in output, output
        assert facts["digest"].encode() in output and facts["checksum"].encode() in output, output
        with open(backup, "rb") as file:
            good = file.read()
        for wrong in (good[:-1], good[:len(good) // 2] + bytes([good[len(good) // 2] ^ 1])
                      + good[len(good) // 2 + 1:], good + b"x", b"something else", b""):
            with open(backup, "wb") as file:
                file.write(wrong)
            status, output, errors = _run("verify", backup)
            assert status == 1 and backup.encode() in errors, (status, output, errors)
            status, output, errors = _run("--json", "verify", backup)
            assert status == 1 and json.loads(output)["whole"] is False, (status, output, errors)
        status, _, errors = _run("verify", backup, "--log-dir", "/tmp")
        assert status == 2 and b"is a file" in errors, errors


def test_the_operations_of_a_transaction_stand_on_lines_of_their_own():
    with _stopped_member() as (_, data):
        output = _run("log", "dump", data)[1].decode().splitlines()
        at = next(i for i, line in enumerate(output) if line.endswith("multi of 2 operations"))
        assert output[at + 1:at + 3] == ["    create /two (2 bytes)", "    delete /one"], output
        assert not output[at + 3:] or not output[at + 3].startswith(" "), output


def test_data_comes_from_a_file_or_from_standard_input():
    with harness.Cluster(size=1) as cluster, tempfile.TemporaryDirectory(prefix="quorate-operator-") as directory:
        shell = ["--server", cluster.command("grpc"), "--json", "shell"]
        data = b"\x00\xff lines\nand more\n"
        with open(f"{directory}/data", "wb") as file:
            file.write(data)

        def get(path):
            answer = json.loads(_run(*shell, "--", "get", path)[1])
            return base64.b64decode(answer["data_base64"]) if "data_base64" in answer else answer["data"].encode()
        status, output, errors = _run(*shell, "--", "create", "/a", "--file", f"{directory}/data", "world:anyone:rw")
        assert status == 0 and get("/a") == data, (output, errors)
        status, output, errors = _run(*shell, "--", "set", "/a", "-f", "-", data=b"from a pipe")
        assert status == 0 and get("/a") == b"from a pipe", (output, errors)
        status, output, errors = _run(*shell, data=f"set /a --file {directory}/data\n".encode())
        assert status == 0 and get("/a") == data, (output, errors)
        for words, wanted in (
                (["set", "/a", "--file", f"{directory}/none"], "none: cannot be read: No such file"),
                (["set", "/a", "--file", directory], "cannot be read: Is a directory"),
                (["set", "/a", "data", "--file", f"{directory}/data"], "the data is given twice"),
                (["set", "/a"], "the data is missing")):
            status, output, _ = _run(*shell, "--", *words)
            assert status == 2 and wanted in json.loads(output)["message"], output
        status, output, _ = _run(*shell, data=b"set /a --file -\nls /\n")
        assert status == 2 and "standard input has the commands" in output.decode(), output
        assert get("/a") == data


def test_a_value_that_is_too_large_is_named_with_its_size_the_limit_and_its_key():
    with harness.Cluster(size=1, settings=["jute.maxbuffer=1500000"]) as cluster:
        shell = ["--server", cluster.command("grpc"), "shell", "--"]
        assert _run(*shell, "create", "/a")[0] == 0
        large = b"x" * (2 << 20)
        for words in (["set", "/a"], ["create", "/b"]):
            status, _, errors = _run(*shell, *words, "--file", "-", data=large)
            assert status == 1 and b"2097152 bytes" in errors and b"jute.maxbuffer" in errors, errors
            assert b"1500000" in errors and words[1].encode() in errors, errors
        entries = ",".join(f"digest:user{i}:x:r" for i in range(257))
        status, _, errors = _run(*shell, "create", "/b", "data", entries)
        assert status == 1 and b"256 entries" in errors and b"bytes of data" not in errors, errors
        status, _, errors = _run(*shell, "set", "/a", "--file", "-", data=b"x" * (9 << 20))
        assert status == 2 and b"which no server takes" in errors, errors
        assert _run(*shell, "get", "/a")[1] == b"\n"


def test_defaults_come_from_the_files_of_the_person_and_of_the_machine():
    with harness.Cluster(size=1) as cluster, tempfile.TemporaryDirectory(prefix="quorate-operator-") as home:
        where = cluster.command("grpc")
        person = servers.write(f"{home}/.config/quorate/config", f"# mine\nserver = {where}\njson = true\n")
        environment = dict(os.environ, HOME=home)
        for name in ("XDG_CONFIG_HOME", "QUORATE_CONFIG", "QUORATE_SERVER"):
            environment.pop(name, None)

        def run(*arguments, **more):
            result = subprocess.run([quorate_cli.PROGRAM, *arguments], stdin=subprocess.DEVNULL, text=True, timeout=60,
                                    capture_output=True, check=False, env=dict(environment, **more))
            return result.returncode, result.stdout, result.stderr
        status, output, errors = run("status")
        assert status == 0 and json.loads(output)["servers"][0]["server"] == where, (output, errors)
        # The environment overrides files, and the command line overrides both.
        assert json.loads(run("status", QUORATE_SERVER=NOBODY)[1])["servers"][0]["server"] == NOBODY
        assert run("--server", where, "status", QUORATE_SERVER=NOBODY)[0] == 0
        named = servers.write(f"{home}/named", f"server={NOBODY}\n")
        status, output, _ = run("status", QUORATE_CONFIG=named)
        assert status == 1 and NOBODY in output, output
        servers.write(person, "json = true\nsever = x\n")
        status, _, errors = run("status")
        message = json.loads(errors)["error"]["message"]
        assert status == 2 and message == f"{person}:2: sever: there is no such option; did you mean server?", errors
        status, _, errors = run("status", QUORATE_CONFIG=f"{home}/none")
        assert status == 2 and f"{home}/none: the defaults of options cannot be read: No such file" in errors, errors


def _completed(line, environment):
    """Returns the completions that bash offers at the end of `line`, with the script loaded."""
    script = r'''
source <("$1" completion bash)
COMP_LINE=$2 COMP_POINT=${#2}
read -ra COMP_WORDS <<<"$2"
if [[ $2 == *" " ]]; then COMP_WORDS+=(""); fi
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_WORDS[0]=$1
_quorate
printf '%s\n' "${COMPREPLY[@]}"
'''
    result = subprocess.run(["bash", "-c", script, "bash", quorate_cli.PROGRAM, line], capture_output=True, text=True, timeout=60,
                            check=False, env=dict(os.environ, QUORATE_CONFIG="", **environment))
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_bash_completes_commands_options_and_paths():
    with harness.Cluster(size=1) as cluster:
        where = cluster.command("grpc")
        shell = ["--server", where, "shell", "--"]
        for path in ("/app", "/app/one", "/app/two", "/apple"):
            assert _run(*shell, "create", path)[0] == 0
        servers_named = {"QUORATE_SERVER": where}
        for line, wanted in (
                ("quorate sta", ["status"]), ("quorate log ", ["dump"]), ("quorate help snapsh", ["snapshot"]),
                ("quorate watch --rec", ["--recursive"]), ("quorate --jso", ["--json"]),
                ("quorate shell -- getA", ["getAcl", "getAllChildrenNumber"]),
                ("quorate shell -- create --f", ["--file"]),
                ("quorate shell -- get /ap", ["/app", "/apple"]), ("quorate watch /app/", ["/app/one", "/app/two"]),
                ("quorate shell get /app/t", ["/app/two"]), ("quorate verify /tm", [])):
            assert _completed(line, servers_named) == wanted, (line, _completed(line, servers_named))
        # Servers of the command line override those of the environment. Without servers, or if none answers,
        # there are no completions.
        assert _completed(f"quorate --server {where} lock /appl", {"QUORATE_SERVER": NOBODY}) == ["/apple"]
        assert _completed("quorate watch /ap", {"QUORATE_SERVER": ""}) == []
        assert _completed("quorate watch /ap", {"QUORATE_SERVER": NOBODY}) == []
