// SPDX-License-Identifier: Apache-2.0

#include "tools/cli/defaults.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/similar_names.h"

namespace quorate::tools {
namespace {

constexpr char kMachineFile[] = "/etc/quorate/client.conf";
constexpr size_t kBytesMax = 1 << 20;

// Collects all options that a file can set, by key.
void Collect(CLI::App* app, const std::string& prefix, std::map<std::string, CLI::Option*>* keys) {
  for (CLI::Option* option : app->get_options()) {
    const std::vector<std::string>& names = option->get_lnames();
    if (names.empty() || names[0] == "help" || names[0] == "version") continue;
    (*keys)[prefix + names[0]] = option;
  }
  for (CLI::App* command : app->get_subcommands(nullptr)) {
    // A group of options has no name.
    Collect(command, command->get_name().empty() ? prefix : prefix + command->get_name() + ".",
            keys);
  }
}

absl::Status Wrong(const std::string& path, int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", what));
}

absl::Status SetDefault(const std::string& path, int line, const std::string& key,
                        const std::string& value, const std::map<std::string, CLI::Option*>& keys) {
  const auto found = keys.find(key);
  if (found == keys.end()) {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const auto& [name, option] : keys) names.push_back(name);
    const std::vector<std::string> similar = SimilarNames(key, names);
    return Wrong(path, line,
                 absl::StrCat(key, ": there is no such option",
                              similar.empty() ? "; `quorate help COMMAND` lists those of a command"
                                              : absl::StrCat("; did you mean ",
                                                             absl::StrJoin(similar, " or "), "?")));
  }
  try {
    found->second->run_callback_for_default()->default_val(value);
  } catch (const CLI::Error& error) {
    return Wrong(path, line, absl::StrCat(key, ": \"", value, "\" is refused: ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<DefaultsFile> DefaultsFiles() {
  if (const char* named = std::getenv("QUORATE_CONFIG")) {
    if (*named == '\0') return {};
    return {{named, true}};
  }
  std::vector<DefaultsFile> files = {{kMachineFile, false}};
  const char* configuration = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (configuration != nullptr && *configuration != '\0') {
    files.push_back({absl::StrCat(configuration, "/quorate/config"), false});
  } else if (home != nullptr && *home != '\0') {
    files.push_back({absl::StrCat(home, "/.config/quorate/config"), false});
  }
  return files;
}

absl::Status ApplyDefaultsText(const std::string& path, std::string_view text, CLI::App* app) {
  std::map<std::string, CLI::Option*> keys;
  Collect(app, "", &keys);
  int line = 0;
  for (absl::string_view whole :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++line;
    const absl::string_view stripped = absl::StripAsciiWhitespace(whole);
    if (stripped.empty() || stripped[0] == '#') continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(stripped, absl::MaxSplits('=', 1));
    if (parts.size() != 2) {
      return Wrong(path, line, absl::StrCat("\"", stripped, "\" is not key = value"));
    }
    const std::string key(absl::StripAsciiWhitespace(parts[0]));
    const std::string value(absl::StripAsciiWhitespace(parts[1]));
    if (absl::Status s = SetDefault(path, line, key, value, keys); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status ApplyDefaults(const DefaultsFile& file, CLI::App* app) {
  std::ifstream input(file.path, std::ios::binary);
  if (!input) {
    const int error = errno;
    const bool is_missing = error == ENOENT || error == ENOTDIR;
    if (is_missing && !file.is_required) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(file.path, ": the defaults of options cannot be read: ", std::strerror(error),
                     file.is_required ? "; QUORATE_CONFIG names that file" : ""));
  }
  std::string text(kBytesMax + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(input.gcount()));
  if (input.bad() || text.size() > kBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path, ": the defaults of options cannot be read, or are more than ",
                     kBytesMax, " bytes"));
  }
  return ApplyDefaultsText(file.path, text, app);
}

}  // namespace quorate::tools
