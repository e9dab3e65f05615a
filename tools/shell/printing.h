// SPDX-License-Identifier: Apache-2.0

// Formats znodes, access control lists and errors, for people as zkCli.sh does, and as JSON.
//
// Thread-safety: functions without state.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate::tools::shell {

// Returns eleven lines, without a newline at the end.
std::string ToText(const Stat& stat);
nlohmann::ordered_json ToJson(const Stat& stat);

// Parses "scheme:id:cdrwa[,scheme:id:cdrwa...]"; the id of the schemes digest and ip may contain
// colons. INVALID_ARGUMENT names the wrong part.
absl::StatusOr<std::vector<Acl>> ParseAcls(const std::string& text);
// Returns two lines for each entry, without a newline at the end: "'world,'anyone" and ": cdrwa".
std::string ToText(const std::vector<Acl>& acl);
nlohmann::ordered_json ToJson(const std::vector<Acl>& acl);

// Returns names as a list: "[a, b]".
std::string ListText(const std::vector<std::string>& names);

// Returns the document on one line. Bytes that are not UTF-8, which can only come from the command
// line, are replaced.
std::string Dump(const nlohmann::ordered_json& json);

// Puts data into an object, as "data" if it is UTF-8, else as "data_base64".
void PutData(std::string_view data, nlohmann::ordered_json* object);

// Returns `status` with the words of zkCli.sh and the path as its message; code and payloads stay.
absl::Status Failure(const absl::Status& status, const std::string& path);
// Returns the name of the servers' error, such as "NO_NODE", or of the status code for other
// errors.
std::string NameOfError(const absl::Status& status);
// Returns what the user can do about the error of a command; empty if there is no advice.
std::string HintFor(const absl::Status& status, const std::string& command,
                    const std::string& path);
// Returns the exit status of a process: 0 for success, 1 for a failure, 2 for bad usage.
int ExitStatusOf(const absl::Status& status);

}  // namespace quorate::tools::shell
