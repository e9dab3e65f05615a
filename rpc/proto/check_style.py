#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Checks the .proto files of rpc/proto/quorate with the rules of buf's category STANDARD, which are described at
https://buf.build/docs/lint/rules; buf itself is not in Debian. Has no exceptions. Prints FILE:LINE: RULE: what is wrong, and
exits with status 1 if there is something."""

import collections
import re
import sys

import descriptors

PASCAL = re.compile(r"[A-Z][A-Za-z0-9]*")
LOWER_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
UPPER_SNAKE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
VERSIONED = re.compile(r".*\.v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")

# Options that all files of a package have alike: the rule PACKAGE_SAME_... of each.
SAME_OPTIONS = ("csharp_namespace", "go_package", "java_multiple_files", "java_package", "php_namespace",
                "ruby_package", "swift_prefix")
# Those without which the generated code of a language would stand in a surprising place.
REQUIRED_OPTIONS = ("csharp_namespace", "go_package", "java_multiple_files", "java_package")

# Numbers of fields in descriptor.proto, of which the paths of source positions consist.
MESSAGES, ENUMS, SERVICES = 4, 5, 6
FIELDS, NESTED, NESTED_ENUMS, ONEOFS, VALUES, METHODS = 2, 3, 4, 8, 2, 2


def upper_snake(name):
    """Returns the name of a type as its enum values have it: ErrorCode is ERROR_CODE."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()


class Checker:
    """Collects what is wrong with the files `own` of a FileDescriptorSet."""

    def __init__(self, files, own):
        self.all = {file.name: file for file in files.file}
        self.own = [file for file in files.file if file.name in own]
        self.problems = []
        self.lines = {}

    def check(self):
        """Returns the problems in the order of the files and lines, as texts."""
        for file in self.own:
            self.lines = {tuple(place.path): place.span[0] + 1 for place in file.source_code_info.location}
            self._file(file)
        self._packages()
        self._rpc_messages()
        return [f"{name}:{line}: {rule}: {what}" for name, line, rule, what in sorted(self.problems)]

    def _report(self, file, path, rule, what, line=None):
        self.problems.append((file.name, line or self.lines.get(tuple(path), 1), rule, what))

    def _name(self, file, path, rule, pattern, name):
        if not pattern.fullmatch(name):
            self._report(file, path, rule, f"{name} is not written as the rule demands")

    def _file(self, file):
        directory, _, base = file.name.rpartition("/")
        self._name(file, (), "FILE_LOWER_SNAKE_CASE", LOWER_SNAKE, base.removesuffix(".proto"))
        if file.syntax != "proto3":
            self._report(file, (12,), "SYNTAX_SPECIFIED", 'the file does not begin with syntax = "proto3"')
        if not file.package:
            self._report(file, (), "PACKAGE_DEFINED", "the file has no package")
        elif directory != file.package.replace(".", "/"):
            self._report(file, (2,), "PACKAGE_DIRECTORY_MATCH", f"package {file.package} is in the folder {directory}")
        for part in file.package.split("."):
            self._name(file, (2,), "PACKAGE_LOWER_SNAKE_CASE", LOWER_SNAKE, part)
        if not VERSIONED.fullmatch(file.package):
            self._report(file, (2,), "PACKAGE_VERSION_SUFFIX", f"{file.package} does not end with a version such as .v1")
        for option in REQUIRED_OPTIONS:
            if not file.options.HasField(option):
                self._report(file, (), f"PACKAGE_SAME_{option.upper()}", f"the option {option} is missing")
        self._imports(file)
        for i, message in enumerate(file.message_type):
            self._message(file, (MESSAGES, i), message)
        for i, enum in enumerate(file.enum_type):
            self._enum(file, (ENUMS, i), enum)
        for i, service in enumerate(file.service):
            self._service(file, (SERVICES, i), service)

    def _imports(self, file):
        for index in file.public_dependency:
            self._report(file, (3, index), "IMPORT_NO_PUBLIC", f"{file.dependency[index]} is imported publicly")
        for index in file.weak_dependency:
            self._report(file, (3, index), "IMPORT_NO_WEAK", f"{file.dependency[index]} is imported weakly")
        used = set(_used_types(file))
        for index, name in enumerate(file.dependency):
            if not used & set(_defined_types(self.all[name])):
                self._report(file, (3, index), "IMPORT_USED", f"nothing of {name} is used")

    def _message(self, file, path, message):
        if message.options.map_entry:
            return
        self._name(file, path, "MESSAGE_PASCAL_CASE", PASCAL, message.name)
        synthetic = {field.oneof_index for field in message.field if field.proto3_optional}
        for i, field in enumerate(message.field):
            self._name(file, (*path, FIELDS, i), "FIELD_LOWER_SNAKE_CASE", LOWER_SNAKE, field.name)
            if field.label == field.LABEL_REQUIRED:
                self._report(file, (*path, FIELDS, i), "FIELD_NOT_REQUIRED", f"{field.name} is required")
        for i, oneof in enumerate(message.oneof_decl):
            if i not in synthetic:
                self._name(file, (*path, ONEOFS, i), "ONEOF_LOWER_SNAKE_CASE", LOWER_SNAKE, oneof.name)
        for i, nested in enumerate(message.nested_type):
            self._message(file, (*path, NESTED, i), nested)
        for i, enum in enumerate(message.enum_type):
            self._enum(file, (*path, NESTED_ENUMS, i), enum)

    def _enum(self, file, path, enum):
        self._name(file, path, "ENUM_PASCAL_CASE", PASCAL, enum.name)
        if enum.options.allow_alias:
            self._report(file, path, "ENUM_NO_ALLOW_ALIAS", f"{enum.name} allows two names of one number")
        prefix = upper_snake(enum.name) + "_"
        for i, value in enumerate(enum.value):
            place = (*path, VALUES, i)
            self._name(file, place, "ENUM_VALUE_UPPER_SNAKE_CASE", UPPER_SNAKE, value.name)
            if not value.name.startswith(prefix):
                self._report(file, place, "ENUM_VALUE_PREFIX", f"{value.name} does not begin with {prefix}")
            if value.number == 0 and not value.name.endswith("_UNSPECIFIED"):
                self._report(file, place, "ENUM_ZERO_VALUE_SUFFIX", f"{value.name} does not end with _UNSPECIFIED")
        if enum.value[0].number != 0:
            self._report(file, (*path, VALUES, 0), "ENUM_FIRST_VALUE_ZERO", f"{enum.value[0].name} is not 0")

    def _service(self, file, path, service):
        self._name(file, path, "SERVICE_PASCAL_CASE", PASCAL, service.name)
        if not service.name.endswith("Service"):
            self._report(file, path, "SERVICE_SUFFIX", f"{service.name} does not end with Service")
        for i, method in enumerate(service.method):
            place = (*path, METHODS, i)
            self._name(file, place, "RPC_PASCAL_CASE", PASCAL, method.name)
            for rule, kind, given in (("RPC_REQUEST_STANDARD_NAME", "Request", method.input_type),
                                      ("RPC_RESPONSE_STANDARD_NAME", "Response", method.output_type)):
                allowed = [method.name + kind, service.name + method.name + kind]
                if given.rpartition(".")[2] not in allowed:
                    self._report(file, place, rule, f"the {kind.lower()} of {method.name} is {given[1:]}, which is not "
                                 f"named {' or '.join(allowed)}")

    def _rpc_messages(self):
        """RPC_REQUEST_RESPONSE_UNIQUE: each request and each response belongs to one method alone."""
        first = {}
        for file in self.own:
            for service in file.service:
                for method in service.method:
                    name = f"{service.name}.{method.name}"
                    for kind, given in (("request", method.input_type), ("response", method.output_type)):
                        use = f"the {kind} of {name}"
                        if first.setdefault(given, use) != use:
                            self._report(file, (), "RPC_REQUEST_RESPONSE_UNIQUE",
                                         f"{given[1:]} is {first[given]} and {use}", line=1)

    def _packages(self):
        folders, packages = collections.defaultdict(set), collections.defaultdict(set)
        options = collections.defaultdict(dict)
        for file in self.own:
            directory = file.name.rpartition("/")[0]
            if len(folders[directory] | {file.package}) > max(1, len(folders[directory])):
                self._report(file, (), "DIRECTORY_SAME_PACKAGE", f"{directory} has two packages", line=1)
            folders[directory].add(file.package)
            if len(packages[file.package] | {directory}) > max(1, len(packages[file.package])):
                self._report(file, (), "PACKAGE_SAME_DIRECTORY", f"{file.package} is in two folders", line=1)
            packages[file.package].add(directory)
            for option in SAME_OPTIONS:
                value = getattr(file.options, option)
                if options[file.package].setdefault(option, value) != value:
                    self._report(file, (), f"PACKAGE_SAME_{option.upper()}",
                                 f"{option} is not the same as in the other files of {file.package}", line=1)
        self._package_cycles()

    def _package_cycles(self):
        imports = collections.defaultdict(set)
        for file in self.own:
            imports[file.package] |= {self.all[name].package for name in file.dependency} - {file.package}

        def reaches(package, wanted, seen):
            return any(other == wanted or (other not in seen and reaches(other, wanted, seen | {other}))
                       for other in imports.get(package, ()))

        for file in self.own:
            if reaches(file.package, file.package, set()):
                self._report(file, (), "PACKAGE_NO_IMPORT_CYCLE", f"{file.package} imports itself through others", line=1)


def _used_types(file):
    def of_message(message):
        for field in (*message.field, *message.extension):
            yield field.type_name
        for nested in message.nested_type:
            yield from of_message(nested)

    for message in file.message_type:
        yield from of_message(message)
    for service in file.service:
        for method in service.method:
            yield method.input_type
            yield method.output_type


def _defined_types(file):
    def of_message(prefix, message):
        name = f"{prefix}.{message.name}"
        yield name
        for nested in message.nested_type:
            yield from of_message(name, nested)
        for enum in message.enum_type:
            yield f"{name}.{enum.name}"

    prefix = f".{file.package}" if file.package else ""
    for message in file.message_type:
        yield from of_message(prefix, message)
    for enum in file.enum_type:
        yield f"{prefix}.{enum.name}"


def check(root=descriptors.HERE):
    """Returns what is wrong with the files below root/quorate."""
    return Checker(*descriptors.compile_protos(root)).check()


def main():
    problems = check()
    for problem in problems:
        print(f"rpc/proto/{problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
