// SPDX-License-Identifier: Apache-2.0

// Defaults of options, from configuration files of the user and of the machine.
//
// A file has lines "key = value", and comments that begin with #. A key is the name of an option
// without its dashes: "server", "json", or of a command's option: "shell.timeout", "log.dump.data".
// The value of an option without an argument is true or false.
//
// Thread-safety: functions without state; they read the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace quorate::tools {

struct DefaultsFile {
  std::string path;
  // Whether the file must exist, because $QUORATE_CONFIG names it.
  bool is_required = false;
};

// Returns the files to read; later files override earlier ones. This is only $QUORATE_CONFIG if
// that is set (no file if it is empty), otherwise /etc/quorate/client.conf and
// ~/.config/quorate/config.
std::vector<DefaultsFile> DefaultsFiles();

// Sets the defaults in `file` for options of `app` and of its subcommands. The command line and the
// environment take precedence over them. INVALID_ARGUMENT, naming the file, the line and the key:
// no option has this key, or the option rejects the value.
absl::Status ApplyDefaults(const DefaultsFile& file, CLI::App* app);

// Does the same with `text` as the contents of the file at `path`.
absl::Status ApplyDefaultsText(const std::string& path, std::string_view text, CLI::App* app);

}  // namespace quorate::tools
