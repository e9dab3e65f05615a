# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate shell` from scripts: one command, commands on standard input, exit status, JSON."""

import json

import cli
import harness
import native


def shared_one_command_at_a_time(cluster):
    where, path = cli.servers(cluster), cli.fresh("one")
    assert cli.shell(where, "create", path, "two words").output == f"Created {path}\n"
    assert cli.shell(where, "get", path).output == "two words\n"
    assert cli.shell(where, "set", "-v", "0", path, "-- x").output == ""
    assert cli.shell(where, "get", path).output == "-- x\n"
    # The dashes may be left out if no option of the command looks like an option of the shell.
    assert cli.run(where, "shell", "get", path, status=0).output == "-- x\n"
    stat = cli.shell(where, "stat", path).output
    assert "dataVersion = 1\n" in stat and "dataLength = 4\n" in stat, stat


def shared_exit_status_and_errors(cluster):
    where, path = cli.servers(cluster), cli.fresh("status")
    missing = cli.shell(where, "get", path, status=1)
    assert missing.errors == f"Node does not exist: {path}\n" and not missing.output
    refused = cli.shell(where, "create", path + "/a", status=1)
    assert "hint: create -p" in refused.errors, refused
    assert cli.shell(where, "create", "-p", path + "/a").status == 0
    assert f"hint: deleteall {path}" in cli.shell(where, "delete", path, status=1).errors
    for words in (["get"], ["get", "a", "b", "c"], ["get", "-x", path], ["nonsense"], ["get", "relative"],
                  ["create", "-t", "x", path + "/t"], ["create", "-c", "-e", path + "/t"],
                  ["set", "-v", "-5", path, "x"], ["setAcl", path, "world"],
                  ["setAcl", path, "world:anyone:x"], ["addWatch", "-m", "LOUD", path],
                  ["setquota", path], ["setquota", "-n", "0", path], ["redo", "7"], ["help", "nonsense"],
                  ["ls", "-R", "-s", path], ["deleteall", "-b", "0", path]):
        wrong = cli.shell(where, *words, status=2)
        assert wrong.errors and not wrong.output, wrong
    assert "do you mean create?" in cli.shell(where, "creat", "/x", status=2).errors
    assert cli.shell(where, "setAcl", path, "wrong:scheme:r", status=1).errors == f"Acl is not valid : {path}\n"


def shared_a_script_goes_on_after_errors(cluster):
    where, path = cli.servers(cluster), cli.fresh("script")
    lines = f"# a comment\n\ncreate {path} 'a b'\nget {path}/no\nget\nget {path}\nquit\nget {path}\n"
    outcome = cli.shell(where, typed=lines, status=1)
    assert outcome.output == f"Created {path}\na b\n", outcome
    outcome = cli.shell(where, typed=lines, status=1, options=["--exit-on-error"])
    assert outcome.output == "" and "already exists" in outcome.errors, outcome
    assert cli.shell(where, typed="get 'open\n", status=2).errors == "a quote has no end: get 'open\n"


def shared_json_has_an_object_a_line(cluster):
    where, path = cli.servers(cluster), cli.fresh("json")
    lines = [f"create {path} x", f"create -e -s {path}/e- y", f"ls {path}", f"get {path}", f"get {path}/no",
             "get", f"stat {path}", f"getAcl {path}", "whoami", f"getAllChildrenNumber {path}", "getEphemerals",
             f"ls -R {path}", f"get -w {path}", f"set {path} \"a b\"", "config", "history", "version", "help",
             f"setquota -n 5 {path}", f"listquota {path}", f"delquota {path}", f"deleteall {path}", "nonsense"]
    outcome = cli.run(where, "--json", "shell", typed="\n".join(lines) + "\n", status=1)
    assert not outcome.errors, outcome.errors
    found = outcome.objects()
    events = [o for o in found if "event" in o]
    answers = [o for o in found if "event" not in o]
    assert [o["command"] for o in answers] == [line.split()[0] for line in lines], outcome
    by_line = dict(zip(lines, answers))
    child = by_line[lines[1]]["created"]
    assert child == f"{path}/e-0000000000"
    assert by_line[f"ls {path}"]["children"] == ["e-0000000000"]
    assert by_line[f"get {path}"]["data"] == "x" and by_line[f"get {path}"]["stat"]["version"] == 0
    assert by_line[f"get {path}/no"]["error"] == "NO_NODE" and by_line[f"get {path}/no"]["message"]
    assert by_line["get"]["error"] == "INVALID_ARGUMENT"
    assert by_line[f"getAcl {path}"]["acl"] == [{"scheme": "world", "id": "anyone", "permissions": "cdrwa"}]
    assert by_line[f"getAllChildrenNumber {path}"]["count"] == 1
    assert by_line["getEphemerals"]["paths"] == [child]
    assert by_line[f"ls -R {path}"]["paths"] == [path, child]
    assert [(e["event"], e["path"]) for e in events] == [("NodeDataChanged", path)]
    assert by_line[f"listquota {path}"]["limits"]["count"] == 5 and by_line[f"listquota {path}"]["count"] == 2
    assert by_line[f"deleteall {path}"]["deleted"] == 2
    assert "server.1" in by_line["config"]["config"]
    raw = cli.run(where, "--json", "shell", "--", "create", path, b"\xff\xfe".decode("utf-8", "surrogateescape"),
                  status=0)
    assert json.loads(raw.output)["created"] == path
    assert json.loads(cli.run(where, "--json", "shell", "--", "get", path).output)["data_base64"] == "//4="


def shared_a_chroot_is_the_root(cluster):
    where, path = cli.servers(cluster), cli.fresh("chroot")
    cli.shell(where, "create", path)
    inside = cli.servers(cluster, path)
    outcome = cli.shell(inside, typed="create /a x\naddWatch /a\nset /a y\nls -R /\nsetquota -n 9 /a\n"
                        "listquota /a\nconfig -c\ndelquota /a\n")
    assert "Created /a\n" in outcome.output and "type:NodeDataChanged path:/a\n" in outcome.output, outcome
    assert "\n/\n/a\n" in outcome.output and "server.1" not in outcome.output, outcome
    assert f"absolute path is /zookeeper/quota{path}/a/zookeeper_limits\nOutput quota for /a count=9" in (
        outcome.output), outcome
    assert cli.shell(where, "get", path + "/a").output == "y\n"


def shared_large_subtrees(cluster):
    where, path = cli.servers(cluster), cli.fresh("large")
    # Deletes more znodes than one operation may delete.
    with native.Tree(where.split(",", maxsplit=1)[0]) as tree:
        tree.create(path)
        for i in range(0, 10_050, 1005):
            operations = [native.create(f"{path}/{j}") for j in range(i, i + 1005)]
            tree.call("Txn", native.tree.TxnRequest(operations=operations))
    assert cli.shell(where, typed=f"sync\ngetAllChildrenNumber {path}\n").output.splitlines()[-1] == "10050"
    removed = cli.run(where, "--json", "shell", "--", "deleteall", path, status=0)
    assert json.loads(removed.output)["deleted"] == 10_051
    cli.shell(where, "stat", path, status=1)
    # No znode is deleted below a znode that cannot be deleted.
    cli.shell(where, "create", path)
    for root in ("/", "/zookeeper"):
        for words in (["deleteall", root], ["deleteall", "-b", "4", root]):
            refused = cli.shell(where, *words, status=1)
            assert root in refused.errors, refused
    cli.shell(where, "stat", path, status=0)
    cli.shell(where, "stat", "/zookeeper/quota", status=0)
    cli.shell(where, "deleteall", "-b", "4", path)
    cli.shell(where, "stat", path, status=1)
    lines = [f"create {path}"] + [f"create {path}/{i}" for i in range(25)] + [f"deleteall -b 4 {path}"]
    cli.shell(where, typed="\n".join(lines) + "\n")
    cli.shell(where, "stat", path, status=1)


def shared_ephemerals_end_with_the_shell(cluster):
    where, path = cli.servers(cluster), cli.fresh("ephemeral")
    typed = f"create {path}\ncreate -e {path}/e\ncreate -e -s {path}/s-\ngetEphemerals\ndelete {path}/e\ngetEphemerals {path}\n"
    outcome = cli.shell(where, typed=typed + f"close\nget {path}\nconnect {where}\nls {path}\n", status=1)
    assert outcome.output.splitlines()[3:] == [f"[{path}/e, {path}/s-0000000001]", f"[{path}/s-0000000001]", "[]"], (
        outcome)
    assert outcome.errors == "Not connected; connect begins a session\n", outcome


def shared_watches_are_printed_and_removed(cluster):
    where, path = cli.servers(cluster), cli.fresh("watch")
    outcome = cli.shell(where, typed=f"create {path}\naddWatch {path}\nprintwatches off\nset {path} a\n"
                        f"printwatches on\nset {path} b\nremovewatches {path}\nset {path} c\n")
    assert outcome.output.count("NodeDataChanged") == 1, outcome
    assert outcome.output.count(f"PersistentWatchRemoved path:{path}") == 1, outcome


def alone_help_tells_about_each_command(_):
    nowhere = "127.0.0.1:1"  # help needs no servers
    names = [command["name"] for command in
             json.loads(cli.run(nowhere, "--json", "shell", "--", "help", status=0).output)["commands"]]
    for name in ("ls", "get", "set", "create", "delete", "deleteall", "stat", "sync", "getAcl", "setAcl", "addauth",
                 "addWatch", "removewatches", "listquota", "setquota", "delquota", "getEphemerals",
                 "getAllChildrenNumber", "whoami", "config", "reconfig", "history", "redo", "printwatches", "connect",
                 "close", "quit", "version", "help"):
        assert name in names, name
    for name in names:
        text = cli.shell(nowhere, "help", name).output
        assert text.startswith(f"{name} - ") and "\nusage:\n" in text and "\nexample:\n" in text, text
    assert all(name in cli.shell(nowhere, "help").output for name in names)


def alone_servers_that_do_not_answer(_):
    outcome = cli.shell("127.0.0.1:1,127.0.0.1:2", "ls", "/", options=["--timeout", "1"], status=1)
    assert "127.0.0.1:1" in outcome.errors and "127.0.0.1:2" in outcome.errors, outcome
    assert cli.shell("nonsense", "ls", "/", status=2).errors
    assert "--server" in cli.shell("", "ls", "/", status=2).errors


def alone_a_member_dies_between_two_commands(server):
    with harness.Cluster(server) as cluster:
        where, path = cli.servers(cluster), cli.fresh("dies")
        with cli.Running(where, "shell", typed=True) as shell:
            shell.process.stdin.write(f"create -e {path} x\n")
            shell.process.stdin.flush()
            shell.wait_line(f"Created {path}")
            cluster.kill(cluster.leader())
            shell.process.stdin.write(f"set {path} y\nget {path}\n")
            shell.process.stdin.close()
            assert shell.wait() == 0, shell.lines
            shell.wait_line("y")
