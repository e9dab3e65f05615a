#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Compares the .proto files of rpc/proto/quorate with api_v1.txt, which lists every field, enum value and call that
programs may rely on. Exits with status 1 if they differ.

  rpc/proto/check_compatibility.py          prints what would break programs, and what was added
  rpc/proto/check_compatibility.py --write  writes additions to api_v1.txt, which is then committed with them

What breaks programs is never written: another type, name or number, a field without its number and name in `reserved`, or
a call, message or enum that is missing. As long as no version of Quorate is released, api_v1.txt can be deleted and
written anew.
"""

import argparse
import pathlib
import sys

import descriptors

STORED = descriptors.HERE / "api_v1.txt"
TYPES = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool",
         9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64"}
HEAD = ("# What programs may rely on: written by rpc/proto/check_compatibility.py --write. A field is its number, type,\n"
        "# name and oneof; a call its name, request and response.\n")


def _ranges(ranges, end_offset):
    return [str(number) for one in ranges for number in range(one.start, one.end + end_offset)]


def _field(message, field):
    """Returns what stands behind the number of a field."""
    words = []
    if field.label == field.LABEL_REPEATED:
        words.append("repeated")
    if field.proto3_optional:
        words.append("optional")
    words += [TYPES.get(field.type) or field.type_name[1:], field.name]
    if field.HasField("oneof_index") and not field.proto3_optional:
        words += ["oneof", message.oneof_decl[field.oneof_index].name]
    return " ".join(words)


def _enum(prefix, enum, api):
    parts = {str(value.number): value.name for value in enum.value}
    parts |= {f"reserved {number}": "" for number in _ranges(enum.reserved_range, 1)}
    parts |= {f"reserved {name}": "" for name in enum.reserved_name}
    api[f"enum {prefix}.{enum.name}"] = parts


def _message(prefix, message, api):
    name = f"{prefix}.{message.name}"
    parts = {str(field.number): _field(message, field) for field in message.field}
    parts |= {f"reserved {number}": "" for number in _ranges(message.reserved_range, 0)}
    parts |= {f"reserved {reserved}": "" for reserved in message.reserved_name}
    api[f"message {name}"] = parts
    for nested in message.nested_type:
        _message(name, nested, api)
    for enum in message.enum_type:
        _enum(name, enum, api)


def api_of(files, own):
    """Returns {"message NAME": {number: the rest of the field}, "service NAME": {call: messages}, ...}."""
    api = {}
    for file in files.file:
        if file.name not in own:
            continue
        for message in file.message_type:
            _message(file.package, message, api)
        for enum in file.enum_type:
            _enum(file.package, enum, api)
        for service in file.service:
            api[f"service {file.package}.{service.name}"] = {
                method.name: (f"{'stream ' * method.client_streaming}{method.input_type[1:]} returns "
                              f"{'stream ' * method.server_streaming}{method.output_type[1:]}")
                for method in service.method}
    return api


def _order(key):
    return (0, int(key), "") if key.isdecimal() else (1, 0, key)


def text_of(api):
    """Returns the text in which an API is stored."""
    text = HEAD
    for title in sorted(api):
        text += f"\n{title}\n"
        for key in sorted(api[title], key=_order):
            text += f"  {key} {api[title][key]}".rstrip() + "\n"
    return text


def parse(text):
    """The reverse of text_of."""
    api, parts = {}, {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            parts = api[line] = {}
            continue
        words = line.split()
        size = 2 if words[0] == "reserved" else 1
        parts[" ".join(words[:size])] = " ".join(words[size:])
    return api


def _name_in(kind, rest):
    """Returns the name of a field or of an enum value from what stands behind its number."""
    return rest if kind == "enum" else rest.split(" oneof ")[0].split()[-1]


def broken(before, now):
    """Returns what of the API `before` programs can no longer rely on, as texts."""
    problems = []
    for title, parts in before.items():
        kind = title.split()[0]
        if title not in now:
            problems.append(f"{title} is missing")
            continue
        for key, rest in parts.items():
            given = now[title].get(key)
            if given == rest:
                continue
            if key.startswith("reserved "):
                problems.append(f"{title}: {key.removeprefix('reserved ')} is no longer reserved")
            elif given is not None:
                problems.append(f"{title}: {key} was `{rest}` and is `{given}` now")
            elif kind == "service":
                problems.append(f"{title}: the call {key} is missing")
            else:
                what = "the value" if kind == "enum" else "the field"
                name = _name_in(kind, rest)
                missing = [each for each in (key, name) if f"reserved {each}" not in now[title]]
                if missing:
                    problems.append(f"{title}: {what} {key} ({name}) is missing; if nothing uses it any more, reserve its "
                                    f"number and its name: {', '.join(missing)}")
    return problems


def added(before, now):
    """Returns what the API `now` has beyond that of `before`, as texts."""
    news = []
    for title, parts in now.items():
        for key in (parts.keys() - before[title].keys()) if title in before else [""]:
            news.append(f"{title}: {key} {parts[key]}".rstrip() if key else title)
    return sorted(news)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write additions to api_v1.txt")
    arguments = parser.parse_args()
    return compare(descriptors.HERE, STORED, arguments.write)


def compare(root, stored, writes):
    """Compares the files below `root` with the file `stored`. Returns the exit status."""
    now = api_of(*descriptors.compile_protos(root))
    before = parse(stored.read_text(encoding="utf-8")) if stored.exists() else {}
    problems = broken(before, now)
    for problem in problems:
        print(f"breaks programs: {problem}", file=sys.stderr)
    if problems:
        return 1
    if writes:
        pathlib.Path(stored).write_text(text_of(now), encoding="utf-8")
        return 0
    if text_of(now) == (stored.read_text(encoding="utf-8") if stored.exists() else ""):
        return 0
    for new in added(before, now):
        print(f"added: {new}", file=sys.stderr)
    print("run rpc/proto/check_compatibility.py --write, and commit api_v1.txt with the change", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
