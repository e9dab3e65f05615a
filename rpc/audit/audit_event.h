// SPDX-License-Identifier: Apache-2.0

// One event of the audit log, and its line, in the format of ZooKeeper's
// org.apache.zookeeper.audit.Slf4jAuditLogger with the appender that its configuration suggests.
//
// Thread-safety: values and functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quorate::rpc {

enum class AuditResult : uint8_t {
  kSuccess,
  kFailure,
  kInvoked,  // was begun; its outcome is not known
};

// The texts may come from clients: the line has them escaped, and of a very long one only the
// beginning. They must outlive the event.
struct AuditEvent {
  int64_t session = 0;         // 0: none
  std::string_view user = {};  // names, joined by commas; empty: not known
  std::string_view ip = {};    // without the port; empty: none
  std::string_view operation = {};
  std::optional<std::string_view> znode = {};
  std::string_view znode_type = {};          // of a create; empty: none
  std::optional<std::string_view> acl = {};  // of a setAcl
  // What ZooKeeper has no field for; only with operations that ZooKeeper does not have, and with
  // creates that have added parents.
  std::string_view detail = {};
  AuditResult result = AuditResult::kSuccess;
};

// The most bytes of a text that are shown. The line of an event is shorter than four times their
// sum.
inline constexpr size_t kAuditPathBytesMax = 4096;
inline constexpr size_t kAuditTextBytesMax = 1024;

// Appends the fields of the event, "key=value" joined by tabs and with a line feed at the end:
// everything behind the time and the logger's name.
void AppendAuditFields(const AuditEvent& event, std::string* out);

// Returns the level and the logger's name in front of the fields, such as
// " INFO audit.Slf4jAuditLogger: ".
std::string_view AuditLineName(AuditResult result);

}  // namespace quorate::rpc
