#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_style.py and check_compatibility.py: each problem that they are for is found, and nothing else."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import check_compatibility
import check_style

HEAD = """syntax = "proto3";
package quorate.v1;
"""
OPTIONS = """option csharp_namespace = "Quorate.V1";
option go_package = "quorate/v1;quoratev1";
option java_multiple_files = true;
option java_package = "quorate.v1";
"""
BODY = """
service DoorService {
  rpc Open(OpenRequest) returns (OpenResponse);
  rpc Watch(stream WatchRequest) returns (stream DoorServiceWatchResponse);
}
enum DoorState { DOOR_STATE_UNSPECIFIED = 0; DOOR_STATE_OPEN = 1; }
message OpenRequest {
  string door_name = 1;
  optional int32 version = 2;
  oneof kind { bool is_locked = 3; DoorState state = 4; }
  message Part { repeated string names = 1; }
}
message OpenResponse {}
message WatchRequest {}
message DoorServiceWatchResponse {}
"""


@contextlib.contextmanager
def tree_of(files):
    """Makes a folder with these files, {path: text}."""
    with tempfile.TemporaryDirectory(prefix="quorate-proto-") as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield pathlib.Path(root)


def problems_of(files):
    with tree_of(files) as root:
        return check_style.check(root)


def rules_of(text=HEAD + OPTIONS + BODY, name="quorate/v1/door.proto", others=()):
    return {problem.split(": ")[1] for problem in problems_of({name: text, **dict(others)})}


class Style(unittest.TestCase):
    """Each case changes a file that has no problem."""

    def expect(self, rule, old, new, others=()):
        text = HEAD + OPTIONS + BODY
        self.assertIn(old, text)
        self.assertEqual(rules_of(text.replace(old, new), others=others), {rule})

    def test_a_good_file_has_no_problem(self):
        self.assertEqual(rules_of(), set())

    def test_problems_name_the_file_and_the_line(self):
        text = HEAD + OPTIONS + BODY.replace("service DoorService", "service Door").replace("DoorServiceW", "W")
        line = text.split("service")[0].count("\n") + 1
        (problem,) = problems_of({"quorate/v1/door.proto": text})
        self.assertTrue(problem.startswith(f"quorate/v1/door.proto:{line}: SERVICE_SUFFIX: Door "), problem)

    def test_names(self):
        for rule, old, new in (
                ("SERVICE_PASCAL_CASE", "DoorService", "doorService"),
                ("RPC_PASCAL_CASE", "rpc Open(OpenRequest) returns (OpenResponse)",
                 "rpc open_it(open_itRequest) returns (open_itResponse)"),
                ("MESSAGE_PASCAL_CASE", "Part", "part_of"),
                ("FIELD_LOWER_SNAKE_CASE", "door_name", "doorName"),
                ("ONEOF_LOWER_SNAKE_CASE", "kind", "theKind"),
                ("ENUM_VALUE_UPPER_SNAKE_CASE", "DOOR_STATE_OPEN", "DOOR_STATE_open"),
                ("ENUM_VALUE_PREFIX", "DOOR_STATE_OPEN", "OPEN"),
                ("ENUM_ZERO_VALUE_SUFFIX", "DOOR_STATE_UNSPECIFIED", "DOOR_STATE_CLOSED")):
            with self.subTest(rule):
                text = HEAD + OPTIONS + BODY.replace(old, new)
                if rule == "RPC_PASCAL_CASE":
                    text += "message open_itRequest {} message open_itResponse {}"
                found = rules_of(text)
                self.assertIn(rule, found)
                # The messages of a call with a bad name have bad names, too.
                self.assertLessEqual(found, {rule, "MESSAGE_PASCAL_CASE"})

    def test_an_enum_has_a_good_name(self):
        self.assertEqual(rules_of(HEAD + OPTIONS + "enum door_state { DOOR_STATE_UNSPECIFIED = 0; }"),
                         {"ENUM_PASCAL_CASE"})

    def test_an_enum_has_no_alias(self):
        self.expect("ENUM_NO_ALLOW_ALIAS", "enum DoorState {",
                    "enum DoorState { option allow_alias = true; DOOR_STATE_OTHER_UNSPECIFIED = 0;")

    def test_prefixes_are_those_of_the_words_of_a_type(self):
        for name, prefix in (("ErrorCode", "ERROR_CODE"), ("Role", "ROLE"), ("HTTPMode", "HTTP_MODE"), ("V2Mode", "V2_MODE")):
            self.assertEqual(check_style.upper_snake(name), prefix)

    def test_services_and_their_messages(self):
        self.expect("RPC_REQUEST_STANDARD_NAME", "rpc Open(OpenRequest)", "rpc Open(OpenRequest.Part)")
        self.expect("RPC_RESPONSE_STANDARD_NAME", "returns (OpenResponse)", "returns (OpenRequest.Part)")
        found = rules_of(HEAD + OPTIONS + BODY.replace("returns (OpenResponse)", "returns (WatchRequest)"))
        self.assertEqual(found, {"RPC_RESPONSE_STANDARD_NAME", "RPC_REQUEST_RESPONSE_UNIQUE"})
        other = HEAD + OPTIONS + 'import "quorate/v1/door.proto"; service GateService { rpc Open(OpenRequest) returns ' \
            "(GateServiceOpenResponse); } message GateServiceOpenResponse {}"
        self.assertEqual(rules_of(others={"quorate/v1/gate.proto": other}), {"RPC_REQUEST_RESPONSE_UNIQUE"})

    def test_proto2(self):
        text = 'syntax = "proto2"; package quorate.v1;' + OPTIONS + "message A { required string name = 1; }"
        self.assertEqual(rules_of(text), {"SYNTAX_SPECIFIED", "FIELD_NOT_REQUIRED"})
        self.assertEqual(rules_of(text.replace("required", "optional") + "enum B { B_ONE = 1; }"),
                         {"SYNTAX_SPECIFIED", "ENUM_FIRST_VALUE_ZERO"})

    def test_files_and_packages(self):
        self.assertEqual(rules_of(name="quorate/v1/theDoor.proto"), {"FILE_LOWER_SNAKE_CASE"})
        self.assertEqual(rules_of(name="quorate/v2/door.proto"), {"PACKAGE_DIRECTORY_MATCH"})
        text = OPTIONS + BODY
        self.assertEqual(rules_of('syntax = "proto3"; package quorate;' + text, "quorate/door.proto"),
                         {"PACKAGE_VERSION_SUFFIX"})
        self.assertEqual(rules_of('syntax = "proto3"; package quorate.theV.v1;' + text, "quorate/theV/v1/door.proto"),
                         {"PACKAGE_LOWER_SNAKE_CASE"})
        self.assertIn("PACKAGE_DEFINED", rules_of('syntax = "proto3";' + text))
        other = 'syntax = "proto3"; package quorate.v2;' + OPTIONS
        self.assertEqual(rules_of(others={"quorate/v1/other.proto": other}),
                         {"DIRECTORY_SAME_PACKAGE", "PACKAGE_DIRECTORY_MATCH"})
        self.assertEqual(rules_of(others={"quorate/v2/other.proto": HEAD + OPTIONS}),
                         {"PACKAGE_SAME_DIRECTORY", "PACKAGE_DIRECTORY_MATCH"})

    def test_imports(self):
        part = HEAD + OPTIONS + "message Bell {}"
        use = 'import "quorate/v1/bell.proto";\nmessage Ring { Bell bell = 1; }'
        self.assertEqual(rules_of(HEAD + OPTIONS + use, others={"quorate/v1/bell.proto": part}), set())
        self.assertEqual(rules_of(HEAD + OPTIONS + use.replace("Bell bell", "string bell"),
                                  others={"quorate/v1/bell.proto": part}), {"IMPORT_USED"})
        for kind in ("public", "weak"):
            self.assertEqual(rules_of(HEAD + OPTIONS + use.replace("import", f"import {kind}"),
                                      others={"quorate/v1/bell.proto": part}), {f"IMPORT_NO_{kind.upper()}"})

    def test_packages_that_import_each_other(self):
        def file(package, text):
            return f'syntax = "proto3"; package {package};' + OPTIONS + text
        found = rules_of(
            file("quorate.a.v1", 'import "quorate/b/v1/b.proto"; message A { quorate.b.v1.B b = 1; }'),
            "quorate/a/v1/a.proto",
            {"quorate/b/v1/b.proto": file("quorate.b.v1", 'import "quorate/a/v1/c.proto"; message B { quorate.a.v1.C c = 1; }'),
             "quorate/a/v1/c.proto": file("quorate.a.v1", "message C {}")})
        self.assertEqual(found, {"PACKAGE_NO_IMPORT_CYCLE"})

    def test_options_are_there_and_alike(self):
        for option in ("csharp_namespace", "go_package", "java_multiple_files", "java_package"):
            (line,) = (line for line in OPTIONS.splitlines() if f" {option} " in line)
            rule = f"PACKAGE_SAME_{option.upper()}"
            self.expect(rule, line + "\n", "")
            self.expect(rule, line, line.replace('"quorate', '"other').replace('"Q', '"X').replace("true", "false"),
                        {"quorate/v1/other.proto": HEAD + OPTIONS})
        for option in ("php_namespace", "ruby_package", "swift_prefix"):
            self.expect(f"PACKAGE_SAME_{option.upper()}", HEAD, HEAD + f'option {option} = "Quorate";\n',
                        {"quorate/v1/other.proto": HEAD + OPTIONS})


class Compatibility(unittest.TestCase):
    def outcome(self, old, new, writes=False):
        """Returns the exit status of a comparison after BODY was changed, what was printed, and whether the stored file
        describes the new API."""
        self.assertIn(old, BODY)
        with tree_of({"quorate/v1/door.proto": HEAD + OPTIONS + BODY}) as root:
            stored = root / "api.txt"
            self.assertEqual(check_compatibility.compare(root, stored, writes=True), 0)
            self.assertEqual(check_compatibility.compare(root, stored, writes=False), 0)
            (root / "quorate/v1/door.proto").write_text(HEAD + OPTIONS + BODY.replace(old, new), encoding="utf-8")
            printed = io.StringIO()
            with contextlib.redirect_stderr(printed):
                status = check_compatibility.compare(root, stored, writes)
                is_stored = check_compatibility.compare(root, stored, writes=False) == 0
            return status, printed.getvalue(), is_stored

    def breaks(self, old, new, message):
        for writes in (False, True):
            status, printed, is_stored = self.outcome(old, new, writes)
            self.assertEqual((status, is_stored), (1, False), printed)
            self.assertIn(message, printed)

    def grows(self, old, new, message):
        status, printed, is_stored = self.outcome(old, new)
        self.assertEqual((status, is_stored), (1, False))
        self.assertIn(f"added: {message}", printed)
        self.assertIn("--write", printed)
        status, printed, is_stored = self.outcome(old, new, writes=True)
        self.assertEqual((status, is_stored, printed), (0, True, ""))

    def test_comments_options_and_order_do_not_matter(self):
        status, printed, _ = self.outcome("message OpenResponse {}\nmessage WatchRequest {}",
                                          "// A comment.\nmessage WatchRequest {}\nmessage OpenResponse {}")
        self.assertEqual((status, printed), (0, ""))

    def test_additions_are_written(self):
        self.grows("string door_name = 1;", "string door_name = 1; string colour = 9;",
                   "message quorate.v1.OpenRequest: 9 string colour")
        self.grows("DOOR_STATE_OPEN = 1;", "DOOR_STATE_OPEN = 1; DOOR_STATE_SHUT = 2;",
                   "enum quorate.v1.DoorState: 2 DOOR_STATE_SHUT")
        self.grows("message OpenResponse {}", "message OpenResponse {} message Bell {}", "message quorate.v1.Bell")
        self.grows("service DoorService {", "service DoorService { rpc Shut(WatchRequest) returns (OpenResponse);",
                   "service quorate.v1.DoorService: Shut quorate.v1.WatchRequest returns quorate.v1.OpenResponse")

    def test_a_field_may_go_if_its_number_and_name_are_reserved(self):
        field = "string door_name = 1;"
        self.grows(field, 'reserved 1; reserved "door_name";', "message quorate.v1.OpenRequest: reserved 1")
        self.breaks(field, "", "the field 1 (door_name) is missing; if nothing uses it any more, reserve its number and its "
                    "name: 1, door_name")
        self.breaks(field, "reserved 1;", "reserve its number and its name: door_name")
        self.breaks(field, 'reserved "door_name";', "reserve its number and its name: 1")

    def test_an_enum_value_may_go_if_its_number_and_name_are_reserved(self):
        value = "DOOR_STATE_OPEN = 1;"
        self.grows(value, 'reserved 1; reserved "DOOR_STATE_OPEN";', "enum quorate.v1.DoorState: reserved 1")
        self.breaks(value, "", "the value 1 (DOOR_STATE_OPEN) is missing")
        self.breaks(value, "DOOR_STATE_OPEN = 2;", "the value 1 (DOOR_STATE_OPEN) is missing")
        self.breaks(value, "DOOR_STATE_AJAR = 1;", "1 was `DOOR_STATE_OPEN` and is `DOOR_STATE_AJAR` now")

    def test_fields_keep_their_numbers_types_names_and_oneofs(self):
        self.breaks("door_name = 1", "door_name = 5", "the field 1 (door_name) is missing")
        for old, new in (("string door_name", "bytes door_name"), ("string door_name", "repeated string door_name"),
                         ("string door_name", "string name"), ("optional int32 version", "int32 version"),
                         ("DoorState state", "int32 state"), ("oneof kind {", "oneof sort {")):
            self.breaks(old, new, "` now")
        self.breaks("oneof kind { bool is_locked = 3; DoorState state = 4; }", "bool is_locked = 3; DoorState state = 4;",
                    "3 was `bool is_locked oneof kind` and is `bool is_locked` now")

    def test_calls_and_types_stay(self):
        self.breaks("  rpc Open(OpenRequest) returns (OpenResponse);\n", "",
                    "service quorate.v1.DoorService: the call Open is missing")
        self.breaks("rpc Open(OpenRequest)", "rpc Open(stream OpenRequest)", "and is `stream quorate.v1.OpenRequest returns")
        self.breaks("service DoorService", "service GateService", "service quorate.v1.DoorService is missing")
        self.breaks("  message Part { repeated string names = 1; }\n", "", "message quorate.v1.OpenRequest.Part is missing")

    def test_a_number_stays_reserved(self):
        body = BODY.replace("message OpenResponse {}", 'message OpenResponse { reserved 2 to 3; reserved "old"; }')
        with tree_of({"quorate/v1/door.proto": HEAD + OPTIONS + body}) as root:
            stored = root / "api.txt"
            check_compatibility.compare(root, stored, writes=True)
            (root / "quorate/v1/door.proto").write_text(HEAD + OPTIONS + body.replace("2 to 3", "2"), encoding="utf-8")
            printed = io.StringIO()
            with contextlib.redirect_stderr(printed):
                self.assertEqual(check_compatibility.compare(root, stored, writes=True), 1)
            self.assertIn("message quorate.v1.OpenResponse: 3 is no longer reserved", printed.getvalue())

    def test_what_is_stored_is_read_as_it_was(self):
        with tree_of({"quorate/v1/door.proto": HEAD + OPTIONS + BODY}) as root:
            api = check_compatibility.api_of(*check_compatibility.descriptors.compile_protos(root))
            self.assertEqual(check_compatibility.parse(check_compatibility.text_of(api)), api)


if __name__ == "__main__":
    unittest.main()
