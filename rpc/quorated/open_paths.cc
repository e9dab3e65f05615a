// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/open_paths.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/strings.h"
#include "rpc/config/config_keys.h"
#include "rpc/config/property_lines.h"

namespace quorate::rpc {
namespace {

constexpr mode_t kPermissions = 07777;
constexpr mode_t kOfGroupAndOthers = 077;
constexpr mode_t kOfOthers = 07;
constexpr char kData[] = "the data of all znodes and the passwords of sessions";

// Returns whether the text of a configuration file has the value of a key that is a secret.
bool HasSecrets(std::string_view configuration) {
  absl::string_view rest = ToAbsl(configuration);
  for (int lines = 0; !rest.empty();) {
    const std::string line = NextPropertyLine(&rest, &lines);
    const size_t end = PropertyKeyEnd(line);
    std::string key;
    // A line without a separator is no setting; the parser refuses it.
    if (end == absl::string_view::npos) continue;
    if (UnescapeProperty(absl::string_view(line).substr(0, end), &key) && IsSecretKey(key)) {
      return true;
    }
  }
  return false;
}

class Finder {
 public:
  void AddDirectory(const std::string& path) {
    struct stat info {};
    if (path.empty() || stat(path.c_str(), &info) != 0) return;
    const bool is_own = info.st_uid == geteuid();
    if ((info.st_mode & (is_own ? kOfGroupAndOthers : kOfOthers)) == 0) return;
    Add(path, info.st_mode, kData, is_own ? "chmod 700" : "chmod o-rwx");
  }
  void AddFile(const std::string& path, const char* contents) {
    struct stat info {};
    if (path.empty() || stat(path.c_str(), &info) != 0) return;
    if ((info.st_mode & kOfOthers) != 0) Add(path, info.st_mode, contents, "chmod o-rwx");
  }
  std::vector<OpenPath> Take() { return std::move(found_); }

 private:
  void Add(const std::string& path, mode_t mode, const char* contents, const char* command) {
    const auto is_same = [&path](const OpenPath& other) { return other.path == path; };
    if (std::any_of(found_.begin(), found_.end(), is_same)) return;
    found_.push_back({path, mode & kPermissions, contents, absl::StrCat(command, " ", path)});
  }

  std::vector<OpenPath> found_;
};

}  // namespace

std::vector<OpenPath> FindOpenPaths(const Config& config, std::string_view configuration) {
  Finder finder;
  finder.AddDirectory(config.data_dir);
  finder.AddDirectory(config.log_dir);
  if (HasSecrets(configuration)) finder.AddFile(config.file, "passwords");
  for (const std::string* path : {&config.ssl_key_store, &config.quorum_ssl_key_store}) {
    finder.AddFile(*path, "a private key");
  }
  for (const std::string* path :
       {&config.ssl_key_store_password_file, &config.ssl_trust_store_password_file,
        &config.quorum_ssl_key_store_password_file, &config.quorum_ssl_trust_store_password_file,
        &config.member_secret_file, &config.jaas_file, &config.administrator_token_file}) {
    finder.AddFile(*path, "a password or another secret");
  }
  return finder.Take();
}

void WarnOfOpenPaths(const Config& config, std::string_view configuration) {
  for (const OpenPath& open : FindOpenPaths(config, configuration)) {
    spdlog::warn("other users of this machine can reach {} (mode {:03o}), which has {}; run {}",
                 open.path, open.mode, open.contents, open.repair);
  }
}

}  // namespace quorate::rpc
