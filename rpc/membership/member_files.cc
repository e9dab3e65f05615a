// SPDX-License-Identifier: Apache-2.0

#include "rpc/membership/member_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/strings.h"
#include "rpc/config/property_lines.h"

namespace quorate::rpc {
namespace {

constexpr char kPointerKey[] = "dynamicConfigFile";
constexpr uint64_t kFileBytesMax = 16u << 20;

std::string KeyOf(absl::string_view line) {
  std::string key;
  const size_t end = PropertyKeyEnd(line);
  UnescapeProperty(line.substr(0, std::min(end, line.size())), &key);
  return key;
}

bool IsMemberKey(const std::string& key) {
  return absl::StartsWith(key, "server.") || absl::StartsWith(key, "group.") ||
         absl::StartsWith(key, "weight.");
}

bool MovesToDynamicFile(const std::string& key, ClientKeys client_keys) {
  return IsMemberKey(key) || key == kPointerKey || key == "peerType" ||
         (client_keys != ClientKeys::kStay && key == "clientPort") ||
         (client_keys == ClientKeys::kMove && key == "clientPortAddress");
}

bool HasMemberLines(std::string_view text) {
  absl::string_view rest = ToAbsl(text);
  for (int count = 0; !rest.empty();) {
    if (IsMemberKey(KeyOf(NextPropertyLine(&rest, &count)))) return true;
  }
  return false;
}

// Returns the whole content of the file. NotFound if there is none.
absl::StatusOr<std::string> ContentOf(consensus::Env* env, const std::string& path) {
  auto file = env->OpenFile(path, /*create=*/false);
  if (!file.ok()) return file.status();
  const absl::StatusOr<uint64_t> size = (*file)->Size();
  if (!size.ok()) return size.status();
  if (*size > kFileBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": it has more than ", kFileBytesMax,
                                                   " bytes, which no configuration has"));
  }
  std::string text(*size, '\0');
  const absl::StatusOr<size_t> count = (*file)->ReadAt(0, text.size(), text.data());
  if (!count.ok()) return count.status();
  if (*count != text.size()) {
    return absl::UnavailableError(absl::StrCat(path, ": it changes while it is read"));
  }
  return text;
}

// Returns whether a line of the static file names the dynamic file.
bool Names(const std::string& static_text, const std::string& dynamic_file) {
  const std::string line = absl::StrCat(kPointerKey, "=", dynamic_file);
  for (const absl::string_view one : absl::StrSplit(static_text, '\n')) {
    if (absl::StripTrailingAsciiWhitespace(one) == line) return true;
  }
  return false;
}

// Gives `path` the mode and, if this process may do that, the owner of `model`.
void TakeAccessOf(const std::string& model, const std::string& path) {
  struct stat info;
  if (stat(model.c_str(), &info) != 0) return;
  constexpr mode_t kPermissions = 0777;
  // An owner that cannot be set is that of the process, which reads the file at the next start.
  if (chown(path.c_str(), info.st_uid, info.st_gid) != 0 &&
      chown(path.c_str(), static_cast<uid_t>(-1), info.st_gid) != 0) {
    errno = 0;
  }
  if (chmod(path.c_str(), info.st_mode & kPermissions) != 0) errno = 0;
}

}  // namespace

ServerLines MembersOfText(std::string_view text) {
  ServerLines members;
  for (absl::string_view line : absl::StrSplit(ToAbsl(text), '\n')) {
    if (!absl::ConsumePrefix(&line, "server.")) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    uint32_t id = 0;
    if (!absl::SimpleAtoi(parts.first, &id)) continue;
    const auto parsed = ParseServerLine(std::string(parts.second));
    if (parsed.ok()) members[id] = *parsed;
  }
  return members;
}

std::string DynamicFileText(const ServerLines& members) {
  std::vector<std::string> lines;
  lines.reserve(members.size());
  for (const auto& [id, line] : members) {
    lines.push_back(absl::StrCat("server.", id, "=", FormatServerLine(line)));
  }
  std::sort(lines.begin(), lines.end());
  return absl::StrJoin(lines, "\n");
}

std::string StaticFileText(std::string_view text, std::string_view dynamic_file,
                           ClientKeys client_keys) {
  std::string result;
  absl::string_view rest = ToAbsl(text);
  for (int count = 0; !rest.empty();) {
    const absl::string_view before = rest;
    const std::string line = NextPropertyLine(&rest, &count);
    // A line with its continuation lines.
    const absl::string_view whole = before.substr(0, before.size() - rest.size());
    if (!MovesToDynamicFile(KeyOf(line), client_keys)) absl::StrAppend(&result, whole);
  }
  if (!result.empty() && result.back() != '\n') result += '\n';
  return absl::StrCat(result, kPointerKey, "=", ToAbsl(dynamic_file), "\n");
}

ServerLine OwnLine(const Config& config, ServerLine line) {
  const auto own = config.servers.find(config.my_id);
  if (own != config.servers.end()) {
    line.host = own->second.host;
    line.peer_port = own->second.peer_port;
    line.election_port = own->second.election_port;
  }
  // A port that neither line has, or that is only with TLS, stays in the static file.
  const bool has_port =
      line.client_port != 0 || (own != config.servers.end() && own->second.client_port != 0);
  line.client_port = has_port ? config.client_port : 0;
  line.client_host = line.client_port == 0 ? "" : config.client_address;
  return line;
}

absl::Status MemberFiles::WriteTemporary(const std::string& path, const std::string& text) {
  auto file = env_->OpenFile(path, /*create=*/true);
  if (!file.ok()) return file.status();
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  const std::string_view pieces[] = {text};
  if (absl::Status s = (*file)->WriteAt(0, pieces); !s.ok()) return s;
  TakeAccessOf(static_file_, path);
  return (*file)->Sync();
}

absl::Status MemberFiles::Replace(const std::string& path, const std::string& text) {
  // One name for all versions, so that a crash leaves one temporary file at most. With the number of
  // the member, because several may have their files in one directory.
  const std::string temporary = absl::StrCat(static_file_, ".dynamic.", config_.my_id, ".tmp");
  if (absl::Status s = WriteTemporary(temporary, text); !s.ok()) return s;
  if (absl::Status s = env_->Rename(temporary, path); !s.ok()) return s;
  return env_->SyncDirectory(std::filesystem::path(path).parent_path().string());
}

absl::Status MemberFiles::CheckStarts(const std::string& static_file) const {
  const absl::StatusOr<Config> next = LoadConfig(static_file);
  if (!next.ok()) return next.status();
  if (!next->standalone() && next->my_id == config_.my_id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("a server with one member starts as a standalone one; set "
                   "standaloneEnabled=false in ",
                   config_.file));
}

absl::Status MemberFiles::ReplaceStaticFile(const std::string& before, const std::string& after) {
  const std::string temporary = absl::StrCat(static_file_, ".", config_.my_id, ".tmp");
  absl::Status status = WriteTemporary(temporary, after);
  if (status.ok()) status = CheckStarts(temporary);
  if (status.ok() && HasMemberLines(before)) status = Replace(static_file_ + ".bak", before);
  if (status.ok()) status = env_->Rename(temporary, static_file_);
  if (status.ok()) {
    return env_->SyncDirectory(std::filesystem::path(static_file_).parent_path().string());
  }
  if (env_->Exists(temporary)) env_->Remove(temporary).IgnoreError();
  return status;
}

absl::Status MemberFiles::Update(ServerLines members, int64_t version) {
  const auto own = members.find(config_.my_id);
  if (own == members.end()) return absl::OkStatus();
  own->second = OwnLine(config_, own->second);
  std::error_code error;
  // A link stays one, and what it names is replaced.
  static_file_ = std::filesystem::canonical(config_.file, error).string();
  if (error) return absl::UnavailableError(absl::StrCat(config_.file, ": ", error.message()));
  const std::string dynamic_file = absl::StrCat(static_file_, ".dynamic.", absl::Hex(version));
  const absl::StatusOr<std::string> before = ContentOf(env_, static_file_);
  if (!before.ok()) return before.status();
  absl::StatusOr<std::string> dynamic_before = ContentOf(env_, dynamic_file);
  if (!dynamic_before.ok() && !absl::IsNotFound(dynamic_before.status())) {
    return dynamic_before.status();
  }
  // What was changed by hand since this version was written, such as a port, stays.
  if (dynamic_before.ok() && Names(*before, dynamic_file)) return absl::OkStatus();
  // In a server line, 0.0.0.0 are all addresses, and as clientPortAddress those of IPv4 alone.
  const ClientKeys client_keys = own->second.client_port == 0           ? ClientKeys::kStay
                                 : own->second.client_host == "0.0.0.0" ? ClientKeys::kAddressStays
                                                                        : ClientKeys::kMove;
  const std::string after = StaticFileText(*before, dynamic_file, client_keys);
  absl::Status status = Replace(dynamic_file, DynamicFileText(members));
  if (status.ok()) status = ReplaceStaticFile(*before, after);
  if (status.ok()) return status;
  // The static file may name the dynamic one by now, even if that could not be made durable.
  const absl::StatusOr<std::string> now = ContentOf(env_, static_file_);
  if (!now.ok() || Names(*now, dynamic_file)) return status;
  if (dynamic_before.ok()) {
    Replace(dynamic_file, *dynamic_before).IgnoreError();
  } else if (env_->Exists(dynamic_file)) {
    env_->Remove(dynamic_file).IgnoreError();
  }
  return status;
}

}  // namespace quorate::rpc
