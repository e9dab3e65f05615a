// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/printing.h"

#include <array>
#include <ctime>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/escape.h"

namespace quorate::tools::shell {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<char, int32_t>, 5> kPermissions = {{{'c', kPermissionCreate},
                                                                   {'d', kPermissionDelete},
                                                                   {'r', kPermissionRead},
                                                                   {'w', kPermissionWrite},
                                                                   {'a', kPermissionAdmin}}};

std::string HexOf(int64_t number) { return absl::StrFormat("0x%x", static_cast<uint64_t>(number)); }

// Formats a date as Java does: "Sat Nov 21 22:41:48 UTC 2026".
std::string TimeText(int64_t ms) {
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm broken{};
  localtime_r(&seconds, &broken);
  std::array<char, 64> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%a %b %d %H:%M:%S %Z %Y", &broken);
  return std::string(text.data(), size);
}

std::string PermissionText(int32_t permissions) {
  std::string text;
  for (const auto& [letter, bit] : kPermissions) {
    if ((permissions & bit) != 0) text += letter;
  }
  return text;
}

absl::StatusOr<Acl> ParseAcl(const std::string& text) {
  const size_t first = text.find(':');
  const size_t last = text.rfind(':');
  if (first == std::string::npos || first == last) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, " does not have the form scheme:id:perm, like world:anyone:cdrwa"));
  }
  Acl acl;
  acl.scheme = text.substr(0, first);
  acl.id = text.substr(first + 1, last - first - 1);
  acl.permissions = 0;
  for (const char letter : text.substr(last + 1)) {
    int32_t found = 0;
    for (const auto& [known, bit] : kPermissions) {
      if (known == letter) found = bit;
    }
    if (found == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          text, ": '", std::string(1, letter),
          "' is not a permission; these are c (create), d (delete), r (read), w (write) "
          "and a (admin)"));
    }
    acl.permissions |= found;
  }
  return acl;
}

bool IsUtf8(std::string_view data) {
  try {
    static_cast<void>(ordered_json(std::string(data)).dump());
    return true;
  } catch (const ordered_json::type_error&) {
    return false;
  }
}

// Returns the text of zkCli.sh for an error, which the path follows.
const char* WordsOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNoNode:
      return "Node does not exist: ";
    case ErrorCode::kNodeExists:
      return "Node already exists: ";
    case ErrorCode::kBadVersion:
      return "version No is not valid : ";
    case ErrorCode::kNotEmpty:
      return "Node not empty: ";
    case ErrorCode::kNoChildrenForEphemerals:
      return "Ephemerals cannot have children: ";
    case ErrorCode::kNoAuth:
      return "Insufficient permission : ";
    case ErrorCode::kInvalidAcl:
      return "Acl is not valid : ";
    case ErrorCode::kBadArguments:
      return "Arguments are not valid : ";
    case ErrorCode::kQuotaExceeded:
      return "Quota has exceeded : ";
    default:
      return "";
  }
}

}  // namespace

std::string ToText(const Stat& stat) {
  return absl::StrCat(
      "cZxid = ", HexOf(stat.created_zxid), "\nctime = ", TimeText(stat.created_ms),
      "\nmZxid = ", HexOf(stat.modified_zxid), "\nmtime = ", TimeText(stat.modified_ms),
      "\npZxid = ", HexOf(stat.children_modified_zxid), "\ncversion = ", stat.children_version,
      "\ndataVersion = ", stat.version, "\naclVersion = ", stat.acl_version,
      "\nephemeralOwner = ", HexOf(stat.ephemeral_session), "\ndataLength = ", stat.data_bytes,
      "\nnumChildren = ", stat.children);
}

ordered_json ToJson(const Stat& stat) {
  return {{"created_zxid", HexOf(stat.created_zxid)},
          {"modified_zxid", HexOf(stat.modified_zxid)},
          {"children_modified_zxid", HexOf(stat.children_modified_zxid)},
          {"created_ms", stat.created_ms},
          {"modified_ms", stat.modified_ms},
          {"version", stat.version},
          {"children_version", stat.children_version},
          {"acl_version", stat.acl_version},
          {"ephemeral_session", HexOf(stat.ephemeral_session)},
          {"data_bytes", stat.data_bytes},
          {"children", stat.children}};
}

absl::StatusOr<std::vector<Acl>> ParseAcls(const std::string& text) {
  std::vector<Acl> acls;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    auto acl = ParseAcl(std::string(part));
    if (!acl.ok()) return acl.status();
    acls.push_back(*std::move(acl));
  }
  return acls;
}

std::string ToText(const std::vector<Acl>& acls) {
  // An id may have any characters, and has to stay on its line.
  return absl::StrJoin(acls, "\n", [](std::string* to, const Acl& acl) {
    absl::StrAppend(to, "'", EscapeLine(acl.scheme), ",'", EscapeLine(acl.id),
                    "\n: ", PermissionText(acl.permissions));
  });
}

ordered_json ToJson(const std::vector<Acl>& acls) {
  ordered_json json = ordered_json::array();
  for (const Acl& acl : acls) {
    json.push_back(
        {{"scheme", acl.scheme}, {"id", acl.id}, {"permissions", PermissionText(acl.permissions)}});
  }
  return json;
}

std::string ListText(const std::vector<std::string>& names) {
  return absl::StrCat("[", absl::StrJoin(names, ", "), "]");
}

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void PutData(std::string_view data, ordered_json* object) {
  if (IsUtf8(data)) {
    (*object)["data"] = std::string(data);
  } else {
    (*object)["data_base64"] = absl::Base64Escape(absl::string_view(data.data(), data.size()));
  }
}

absl::Status Failure(const absl::Status& status, const std::string& path) {
  const std::optional<ErrorCode> code = ErrorOf(status);
  if (!code.has_value()) return status;
  const std::string words = WordsOf(*code);
  // zkCli.sh has no text for the error, or the message has the text already, perhaps with another
  // path.
  if (words.empty() || absl::StartsWith(status.message(), words)) return status;
  absl::Status told(status.code(), words + path);
  status.ForEachPayload(
      [&told](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  return told;
}

std::string NameOfError(const absl::Status& status) {
  if (const std::optional<ErrorCode> code = ErrorOf(status)) return std::string(NameOf(*code));
  return absl::StatusCodeToString(status.code());
}

std::string HintFor(const absl::Status& status, const std::string& command,
                    const std::string& path) {
  if (status.code() == absl::StatusCode::kDeadlineExceeded) {
    return "`quorate status` shows which members serve; --timeout waits longer";
  }
  switch (ErrorOf(status).value_or(ErrorCode::kOk)) {
    case ErrorCode::kNoNode:
      return command == "create" ? "create -p creates missing ancestors, too" : "";
    case ErrorCode::kNotEmpty:
      return absl::StrCat("deleteall ", path, " deletes the znode with everything below it");
    case ErrorCode::kBadVersion:
      return absl::StrCat("stat ", path, " shows the current versions of the znode");
    case ErrorCode::kNoAuth:
      if (command == "getAcl") {
        return "only identities that may read or administer the znode see its list; whoami shows "
               "yours, and addauth adds one";
      }
      return absl::StrCat("getAcl ", path,
                          " shows the permissions, whoami your identities; addauth adds one");
    case ErrorCode::kSessionExpired:
      return "connect begins a new session; ephemeral znodes and watches of the old session are "
             "gone";
    case ErrorCode::kQuotaExceeded:
      return absl::StrCat("listquota ", path, ", or of a znode above it, shows the limits");
    default:
      return "";
  }
}

int ExitStatusOf(const absl::Status& status) {
  if (status.ok()) return 0;
  return absl::IsInvalidArgument(status) && !ErrorOf(status).has_value() ? 2 : 1;
}

}  // namespace quorate::tools::shell
