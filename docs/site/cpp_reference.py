#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Makes the reference of the C++ client's public headers with doxygen. The comments of the headers are written for a reader of
the source; this program is doxygen's filter, too, which gives them the form of doxygen.

    docs/site/cpp_reference.py HEADER     prints a header as doxygen gets it

The comment above a function describes it, and the functions that follow without a blank line or another comment, except
those that override one. A comment behind a declaration describes that one. The first comment of a header describes the
file, and its first paragraph the classes whose own comment has nothing but their thread-safety."""

import ast
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOXYFILE = pathlib.Path(__file__).resolve().parent / "Doxyfile"
MAIN_PAGE = pathlib.Path(__file__).resolve().parent / "cpp_reference.dox"
STYLE = pathlib.Path(__file__).resolve().parent / "cpp_reference.css"
FOLDERS = ("client", "client/recipes")
COMMENT = re.compile(r"^(\s*)//(?!/)(.*)$")
BEHIND = re.compile(r"^(.*\S)  // (.*)$")
FUNCTION = re.compile(r"^\s*[\w:<>,&*\[\] ]*?\b(operator\S+|~?\w+)\(")
NO_API = re.compile(r".*\)( const| noexcept)* = (delete|default);$|\s*friend .*;$")
FENCE = "~~~"
# Complaints about a field, a constructor or an operator without a comment: those whose names say all have none.
NEEDS_NO_COMMENT = re.compile(r"Member (\w+ \(variable\) |operator.* \(function\) |"
                              r"(\w+)\(.*\) (noexcept )?\(function\) of class (\S+::)?\2 )(.*)is not documented")
SCOPE_END = re.compile(r"\s*\}")


def public_headers():
    """Returns the paths of the public headers, relative to the root: those of libraries that others can link and that declare
    more than names of quorate::internal."""
    found = []
    for folder in FOLDERS:
        for node in ast.parse((ROOT / folder / "BUILD").read_text(encoding="utf-8")).body:
            call = getattr(node, "value", None)
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "cc_library":
                values = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords
                          if keyword.arg in ("hdrs", "testonly")}
                if not values.get("testonly"):
                    found += [f"{folder}/{name}" for name in values.get("hdrs", ())]
    return sorted(path for path in found
                  if re.search(r"^namespace quorate \{$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE))


def escape(text):
    """Returns prose without what doxygen would read as a command, a tag or a link."""
    return re.sub(r"([\\@<>#%&$|])", r"\\\1", text).replace("::", "\\::")


def described(comment, indent):
    """Returns the lines of a comment for doxygen. What is indented by more than a list, as code and tables, is kept as it is."""
    result, in_code = [], False
    for line in comment:
        if line.startswith("   ") != in_code:
            in_code = not in_code
            result.append(f"{indent}/// {FENCE}")
        result.append(f"{indent}/// {line}" if in_code else f"{indent}///{escape(line)}")
    return result + [f"{indent}/// {FENCE}"] * in_code


def for_doxygen(text):
    """Returns a header as doxygen gets it. Only comments differ, and what no program calls by its name is left out."""
    lines = text.splitlines()
    pragma = lines.index("#pragma once")
    matches = [COMMENT.match(line) for line in lines[1:pragma]]
    about_file = [match.group(2) if match else "" for match in matches]
    first_paragraph = list(itertools.takewhile(str.strip, itertools.dropwhile(lambda line: not line.strip(), about_file)))
    result = ["/// @file", *described(about_file, "")]
    comment, comment_indent = [], ""  # the last one in this paragraph
    documented = False  # whether a function has it already
    for index, line in enumerate(lines[pragma:], pragma):
        indent = line[:len(line) - len(line.lstrip())]
        if match := COMMENT.match(line):
            if not COMMENT.match(lines[index - 1]):
                comment, comment_indent, documented = [], indent, False
            comment.append(match.group(2))
            if not COMMENT.match(lines[index + 1]):
                if lines[index + 1].startswith("class ") and comment[0].startswith(" Thread-safety:"):
                    comment = [*first_paragraph, "", *comment]
                result += described(comment, indent)
            continue
        if NO_API.match(line):
            result.append("")
            continue
        if not line.strip():
            comment = []
        function = FUNCTION.match(line)
        if comment and function and indent == comment_indent and " override" not in line:
            if documented:
                result += described(comment, indent)
            documented = True
        behind = BEHIND.match(line)
        if behind and not SCOPE_END.match(line):
            result.append(f"{behind.group(1)}  ///< {escape(behind.group(2))}")
        else:
            result.append(line)
    return "\n".join(result) + "\n"


def page_of(header):
    """Returns the name of the file that doxygen makes for a header."""
    return pathlib.Path(header).name.replace("_", "__").replace(".", "_8") + ".html"


def remove_broken_links(output):
    """Removes the links at the top of a page that lead to a part which it does not have: doxygen links private classes."""
    for path in output.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        kept = re.sub(r'<a href="#([\w-]+)">[^<]*</a>(?: &#124;\s*)?',
                      lambda link, text=text: link.group() if re.search(f'(id|name)="{link.group(1)}"', text) else "", text)
        if kept != text:
            path.write_text(kept, encoding="utf-8")


def make(output, headers=None, root=ROOT):
    """Makes the reference of the public headers, or of `headers` below `root`, in the directory `output`. Returns what doxygen
    complains about, a line each."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".doxyfile") as settings:
        settings.write(DOXYFILE.read_text(encoding="utf-8"))
        settings.write(f"INPUT = {' '.join(headers or [*public_headers(), str(MAIN_PAGE)])}\nHTML_OUTPUT = {output.absolute()}\n"
                       f"FILTER_PATTERNS = \"*.h={pathlib.Path(__file__).resolve()}\"\n"
                       f"HTML_EXTRA_STYLESHEET = \"{STYLE}\"\n")
        settings.flush()
        made = subprocess.run(["doxygen", settings.name], cwd=root, capture_output=True, text=True, check=False)
    remove_broken_links(output)
    problems = [line for line in made.stderr.splitlines() if not NEEDS_NO_COMMENT.search(line)]
    return problems or ([f"doxygen ended with status {made.returncode}"] if made.returncode else [])


if __name__ == "__main__":
    sys.stdout.write(for_doxygen(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")))
