// SPDX-License-Identifier: Apache-2.0

// The files of the web console (rpc/admin/console), which the build embeds in the program.
//
// Thread-safety: constants, and a function without state.
#pragma once

#include <string>
#include <string_view>

namespace quorate::rpc::admin {

struct ConsoleFile {
  std::string_view name;
  std::string content_type;
  std::string_view content;
};

// Returns the file with this name; nullptr if there is none.
const ConsoleFile* FindConsoleFile(std::string_view name);

}  // namespace quorate::rpc::admin
