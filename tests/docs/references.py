# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference have an entry for everything that the code has, and no other. The pages of configuration keys, of
metrics and of who may do what are compared by unit tests, which generate them."""

import pathlib
import re
import subprocess
import tempfile

import cpp_reference
import harness
import quorate_cli

ROOT = pathlib.Path(harness.ROOT)


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def rows(page, pattern):
    """Returns the first groups of `pattern` in the lines of a page."""
    return set(re.findall(pattern, text_of(f"docs/reference/{page}.md"), re.MULTILINE))


def compare(code, page):
    assert code, "nothing was found in the code: adapt this test to it"
    assert code == page, f"not in the page: {sorted(code - page)}; not in the code: {sorted(page - code)}"
    return f"{len(code)} entries"


def between(path, begin, end):
    return text_of(path).partition(begin)[2].partition(end)[0]


def test_four_letter_words():
    return compare(set(re.findall(r'"(\w{4})"', between("rpc/zookeeper/four_letter_words.cc", "kWords[] = {", "}"))),
                   rows("four-letter-words", r"^\| `(\w{4})` \|"))


def test_http_commands_and_their_aliases():
    code = re.findall(r'\{"(\w+)",\s*\{([^}]*)\}', between("rpc/admin/commands.cc", "kCommands[] = {", "\n};"))
    page = re.findall(r"^\| `(\w+)` \| ([^|]*)\|", text_of("docs/reference/http.md"), re.MULTILINE)
    return compare({(name, *re.findall(r"\w+", aliases)) for name, aliases in code},
                   {(name, *re.findall(r"\w+", aliases)) for name, aliases in page})


def test_health_paths():
    return compare(set(re.findall(r'"(/health/[\w-]+)"', text_of("rpc/admin/health.cc"))), rows("http", r"(/health/[\w-]+)`"))


def subcommands(*words):
    listed = re.search(r"Subcommands:\n((?:  .*\n)+)", quorate_cli.run(*words, "--help").stdout)
    return re.findall(r"^  (\S+)", listed.group(1), re.MULTILINE) if listed else []


def test_commands_of_quorate():
    code = set()
    for name in subcommands():
        code |= {f"{name} {below}" for below in subcommands(name)} or {name}
    return compare(code, rows("commands", r"^\| `quorate ([\w -]+)` \|"))


def test_exit_statuses_of_the_server():
    code = set(re.findall(r"= (\d+),", between("rpc/member/exit_status.h", "enum class ExitStatus", "};")))
    page = set(re.findall(r"^\| (\d+) \|", text_of("docs/operations/run.md"), re.MULTILINE))
    return compare(code, page)


def test_error_codes_of_zookeepers_protocol():
    code = re.findall(r"k(\w+) = (-?\d+),", between("tree/types.h", "enum class ErrorCode", "};"))
    return compare({(number, name.lower()) for name, number in code if int(number) > -1000},
                   {(number, name.lower()) for number, name in rows("errors", r"^\| (-?\d+) \| `(\w+)` \| [^|]*\|$")})


def test_error_codes_of_grpc():
    code = re.findall(r"^  (\w+) = (\d+);", between("rpc/proto/quorate/v1/types.proto", "enum ErrorCode {", "\n}"), re.MULTILINE)
    names = {(number, "OK" if number == "0" else name.removeprefix("ERROR_CODE_")) for name, number in code}
    return compare(names, rows("errors", r"^\| (\d+) \| `(\w+)` \| [A-Z_]+ \| "))


def test_grpc_methods():
    code = set()
    for name in ("tree", "session", "lock", "cluster"):
        proto = text_of(f"rpc/proto/quorate/v1/{name}.proto")
        for service in re.finditer(r"^service (\w+) \{(.*?)^\}", proto, re.MULTILINE | re.DOTALL):
            code |= {f"{service.group(1)}/{method}" for method in re.findall(r"rpc (\w+)\(", service.group(2))}
    return compare(code, rows("grpc", r"^\| `(\w+/\w+)` \|"))


def test_public_headers_of_the_cpp_client():
    page = re.findall(r"^\| \[\S+\]\(\.\./\.\./(client/\S+)\) \|", text_of("docs/reference/cpp.md"), re.MULTILINE)
    assert len(page) == len(set(page)), "a header has two rows"
    return compare(set(cpp_reference.public_headers()), set(page))


def test_messages_of_the_log():
    result = subprocess.run([ROOT / "docs/check_messages.py"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def complaints_about(header):
    """Returns what doxygen complains about in a header of this text."""
    with tempfile.TemporaryDirectory(prefix="quorate-docs-") as name:
        root = pathlib.Path(name)
        (root / "a.h").write_text(f"// SPDX\n\n// A file.\n#pragma once\n\n{header}\n", encoding="utf-8")
        return cpp_reference.make(root / "out", ["a.h"], root)


def test_doxygen_complains_about_a_function_without_a_comment_and_about_a_broken_one():
    described = "// A class, std::string, <tag> and 50% of #1 @home.\nclass A {\n public:\n"
    assert not complaints_about(described + "  A();\n  int field = 0;\n  // Returns f.\n  int F() const;\n  int AsyncF();\n};")
    for header, name in ((described + "  int F();\n};", "F()"), ("class B {\n public:\n  B();\n};", "B"),
                         (described + "  // Returns f.\n  int F();\n\n  int G();\n};", "G()")):
        problems = complaints_about(header)
        assert len(problems) == 1 and name in problems[0] and "not documented" in problems[0], (header, problems)
