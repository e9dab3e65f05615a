# SPDX-License-Identifier: Apache-2.0
"""Writes the C++ source that has the files of the web console: embed.py FILE... > console_files.cc"""

import os
import sys

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}

print('#include "rpc/admin/console_files.h"\nnamespace quorate::rpc::admin {\nnamespace {')
rows = []
for number, path in enumerate(sys.argv[1:]):
    with open(path, "rb") as file:
        content = file.read()
    print(f"constexpr unsigned char kFile{number}[] = {{{','.join(map(str, content))}}};")
    rows.append(f'{{"{os.path.basename(path)}", "{TYPES[os.path.splitext(path)[1]]}; charset=utf-8", '
                f"{{reinterpret_cast<const char*>(kFile{number}), sizeof(kFile{number})}}}}")
print("const ConsoleFile kFiles[] = {" + ",\n".join(rows) + "};\n}  // namespace")
print("""const ConsoleFile* FindConsoleFile(std::string_view name) {
  for (const ConsoleFile& file : kFiles) {
    if (file.name == name) return &file;
  }
  return nullptr;
}
}  // namespace quorate::rpc::admin""")
