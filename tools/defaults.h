// Defaults of options, from configuration files of the person and of the machine.
//
// A file has lines "key = value", and comments that begin with #. A key is the name of an option
// without its dashes: "server", "json", or of a command "shell.timeout", "log.dump.data". The value
// of an option that takes none is true or false.
//
// Thread-safety: functions without state, but for the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace quorate::tools {

struct DefaultsFile {
  std::string path;
  // Whether it has to be there: somebody has named it.
  bool is_required = false;
};

// The files that are read, the later ones over the earlier ones: $QUORATE_CONFIG alone if it is set
// (none, if it is empty), else /etc/quorate/client.conf and ~/.config/quorate/config.
std::vector<DefaultsFile> DefaultsFiles();

// Sets the defaults in `file` for options of `app` and of its subcommands. What the command line or
// the environment says goes before them. INVALID_ARGUMENT names the file, the line and the key: a
// key that no option has, a value that it does not take.
absl::Status ApplyDefaults(const DefaultsFile& file, CLI::App* app);

// The same, with the text of the file.
absl::Status ApplyDefaultsText(const std::string& path, std::string_view text, CLI::App* app);

}  // namespace quorate::tools
