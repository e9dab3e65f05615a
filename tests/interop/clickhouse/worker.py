# SPDX-License-Identifier: Apache-2.0
"""Runs ClickHouse in this process: worker.py LIBRARY CONFIG. Each line of standard input is a query as a JSON string; the
answer is a line with ["ok", text] or ["error", message]. The first line that is printed is ["ok", version]."""

import ctypes
import json
import sys


class Library:
    """The C functions of libchdb.so, with one connection."""

    def __init__(self, path, config):
        library = ctypes.CDLL(path)
        pointer = ctypes.c_void_p
        library.chdb_connect.restype = ctypes.POINTER(pointer)
        library.chdb_connect.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        library.chdb_query.restype = pointer
        library.chdb_query.argtypes = [pointer, ctypes.c_char_p, ctypes.c_char_p]
        for name in ("chdb_result_buffer", "chdb_result_error"):
            getattr(library, name).restype = pointer
            getattr(library, name).argtypes = [pointer]
        library.chdb_result_length.restype = ctypes.c_size_t
        library.chdb_result_length.argtypes = [pointer]
        library.chdb_destroy_query_result.restype = None
        library.chdb_destroy_query_result.argtypes = [pointer]
        arguments = [b"clickhouse", b"--config-file=" + config.encode()]
        self.library = library
        self.connection = library.chdb_connect(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments))
        if not self.connection:
            sys.exit("chdb_connect failed")

    def query(self, text):
        result = self.library.chdb_query(self.connection[0], text.encode(), b"TabSeparated")
        try:
            error = self.library.chdb_result_error(result)
            if error:
                return ["error", ctypes.string_at(error).decode(errors="replace")]
            data = self.library.chdb_result_buffer(result)
            length = self.library.chdb_result_length(result)
            return ["ok", ctypes.string_at(data, length).decode() if length else ""]
        finally:
            self.library.chdb_destroy_query_result(result)


def main():
    library = Library(*sys.argv[1:])
    print(json.dumps(library.query("SELECT version()")), flush=True)
    for line in sys.stdin:
        print(json.dumps(library.query(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
