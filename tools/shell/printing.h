// How znodes, access control lists and failures look, for people as in zkCli.sh, and in JSON.
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

// Eleven lines, without a newline at the end.
std::string ToText(const Stat& stat);
nlohmann::ordered_json ToJson(const Stat& stat);

// "scheme:id:cdrwa[,scheme:id:cdrwa...]"; of digest and ip the id may contain colons.
// INVALID_ARGUMENT names the part that is wrong.
absl::StatusOr<std::vector<Acl>> ParseAcls(const std::string& text);
// Two lines for each, without a newline at the end: "'world,'anyone" and ": cdrwa".
std::string ToText(const std::vector<Acl>& acl);
nlohmann::ordered_json ToJson(const std::vector<Acl>& acl);

// "[a, b]".
std::string ListText(const std::vector<std::string>& names);

// On one line. What is not UTF-8, which only something typed can be, is replaced.
std::string Dump(const nlohmann::ordered_json& json);

// Puts data into an object: "data" if it is UTF-8, else "data_base64".
void PutData(std::string_view data, nlohmann::ordered_json* object);

// An error in the words of zkCli.sh, with what it concerned; everything else of it stays.
absl::Status Failure(const absl::Status& status, const std::string& path);
// "NO_NODE", or the canonical name if it is not of the servers.
std::string NameOfError(const absl::Status& status);
// What can be done about it, after a command of that name; empty if there is nothing to say.
std::string HintFor(const absl::Status& status, const std::string& command,
                    const std::string& path);
// Of what a process should end with: 0, 1 for what failed, 2 for bad usage.
int ExitStatusOf(const absl::Status& status);

}  // namespace quorate::tools::shell
