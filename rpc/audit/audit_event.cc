// SPDX-License-Identifier: Apache-2.0

#include "rpc/audit/audit_event.h"

#include <charconv>

#include "base/escape.h"

namespace quorate::rpc {
namespace {

std::string_view NameOf(AuditResult result) {
  switch (result) {
    case AuditResult::kSuccess:
      return "success";
    case AuditResult::kFailure:
      return "failure";
    case AuditResult::kInvoked:
      break;
  }
  return "invoked";
}

void AppendField(std::string_view key, std::string_view value, size_t bytes_max, std::string* out) {
  *out += key;
  AppendEscaped(value, bytes_max, out);
  *out += '\t';
}

}  // namespace

void AppendAuditFields(const AuditEvent& event, std::string* out) {
  if (event.session != 0) {
    char digits[16];
    const auto end =
        std::to_chars(digits, digits + sizeof(digits), static_cast<uint64_t>(event.session), 16);
    *out += "session=0x";
    out->append(digits, end.ptr);
    *out += '\t';
  }
  if (!event.user.empty()) AppendField("user=", event.user, kAuditTextBytesMax, out);
  if (!event.ip.empty()) AppendField("ip=", event.ip, kAuditTextBytesMax, out);
  AppendField("operation=", event.operation, kAuditTextBytesMax, out);
  if (event.znode.has_value()) AppendField("znode=", *event.znode, kAuditPathBytesMax, out);
  if (!event.znode_type.empty()) {
    AppendField("znode_type=", event.znode_type, kAuditTextBytesMax, out);
  }
  if (event.acl.has_value()) AppendField("acl=", *event.acl, kAuditPathBytesMax, out);
  if (!event.detail.empty()) AppendField("detail=", event.detail, kAuditTextBytesMax, out);
  *out += "result=";
  *out += NameOf(event.result);
  *out += '\n';
}

std::string_view AuditLineName(AuditResult result) {
  return result == AuditResult::kFailure ? " ERROR audit.Slf4jAuditLogger: "
                                         : " INFO audit.Slf4jAuditLogger: ";
}

}  // namespace quorate::rpc
