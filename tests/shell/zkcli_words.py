# SPDX-License-Identifier: Apache-2.0
"""Types the commands that the interoperability tests type into zkCli.sh into `quorate shell`: its answers have the
same words, except for the differences listed here."""

import difflib
import itertools
import re

import cli
import harness
import zkcli

# Lines of zkCli.sh about itself, lines that it prints twice, and events of the connection.
ONLY_THERE = re.compile(
    r"Connecting to |Welcome to ZooKeeper!|JLine support is disabled|WatchedEvent state:\w+ type:None"
    r"|KeeperErrorCode = InvalidACL for |ZooKeeper CLI version|\w+ (\[-\w+( \w+)?\] )+path|null$")
ONLY_HERE = re.compile(r"hint: |usage: |\w+: too few arguments|addWatch: there is no mode|Quorate CLI version")
# Text in front of an error of setAcl -R.
FAILED_ONES = re.compile(r"(KeeperErrorCode = NoAuth for [^K]*)+(?=Insufficient)")
# Errors with the same meaning but other words.
BAD_PATH = re.compile(r"Invalid path string |Path must (not )?(start|end) with |\"[^\"]*\": ")
# Sections that are left out, because they differ: the errors of unknown schemes, and the list of commands.
LEFT_OUT = ("no such scheme", "other")


def _same_words(lines):
    lines = [FAILED_ONES.sub("", line) for line in lines]
    lines = ["a bad path" if BAD_PATH.match(line) else line for line in lines
             if not ONLY_THERE.match(line) and not ONLY_HERE.match(line)]
    lines = [re.sub(r"(Reconfig is disabled).*", r"\1", line) for line in lines]
    # Both list the paths of ls -R level by level, but the names in different orders.
    in_order = []
    for is_path, group in itertools.groupby(lines, lambda line: line.startswith("/") and " " not in line):
        in_order += sorted(group) if is_path else group
    return in_order


def _run_shell(cluster, lines):
    """Returns the output of `quorate shell`, with errors and answers in their order."""
    with cli.Running(cli.servers(cluster).split(",", maxsplit=1)[0], "shell", typed=True) as shell:
        shell.process.stdin.write("\n".join(lines) + "\n")
        shell.process.stdin.close()
        shell.wait()
        shell.reader.join(cli.SECONDS)
        return "".join(line + "\n" for line in shell.lines)


def alone_answers_are_those_of_zkcli(_):
    count = 0
    with harness.Cluster("quorate", settings=zkcli.SETTINGS) as one, \
            harness.Cluster("quorate", settings=zkcli.SETTINGS) as other:
        for name, lines in zkcli.sections():
            if name in LEFT_OUT:
                continue
            # How far ls -R comes before a znode that it may not read depends on the order.
            lines = [line for line in lines if not (name == "strangers" and line == "ls -R /")]
            wanted = _same_words(zkcli.normalised(zkcli.run_cli(one, one.address(1), lines), one, one.address(1)))
            found = _same_words(zkcli.normalised(_run_shell(other, lines), other, other.address(1)))
            if found != wanted:
                difference = "\n".join(difflib.unified_diff(wanted, found, "zkCli.sh", "quorate shell", n=2,
                                                            lineterm=""))
                raise AssertionError(f"in [{name}]:\n{difference}")
            count += len(lines)
    return f"{count} commands"
