# SPDX-License-Identifier: Apache-2.0
"""The programs that a page shows. Used by the tests, and by the build of programs in C++:

    blocks.py PAGE         prints all programs in C++ without a main function, as one
    blocks.py PAGE NAME    prints the program of that name
"""

import re
import sys

FILE = re.compile(r"^```[\w+]+\n((?:#|//) ([\w-]+\.\w+)\n.*?)^```$", re.MULTILINE | re.DOTALL)
MAIN = re.compile(r"^int main\(", re.MULTILINE)


def files(text):
    """Returns {name: text} of the blocks of a page whose first line is a comment with the name of a file."""
    return {name: code for code, name in FILE.findall(text)}


def main():
    with open(sys.argv[1], encoding="utf-8") as page:
        programs = files(page.read())
    if len(sys.argv) > 2:
        sys.stdout.write(programs[sys.argv[2]])
    else:
        sys.stdout.write("\n".join(code for name, code in programs.items() if name.endswith(".cc") and not MAIN.search(code)))


if __name__ == "__main__":
    main()
