// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/operation.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/zookeeper/opcodes.h"
#include "rpc/zookeeper/wire/wire.h"

namespace quorate::differential {
namespace {

constexpr size_t kPrintedBytesMax = 160;

std::string_view ConnectName(ConnectKind kind) {
  switch (kind) {
    case ConnectKind::kNewSession:
      return "new session";
    case ConnectKind::kOwnSession:
      return "own session";
    case ConnectKind::kWrongPassword:
      return "own session, wrong password";
    case ConnectKind::kUnknownSession:
      return "unknown session";
    case ConnectKind::kZxidOfTheFuture:
      return "own session, zxid of the future";
  }
  return "?";
}

}  // namespace

std::string Operation::Describe() const {
  std::string text = absl::StrCat("client ", slot, ": ");
  switch (kind) {
    case OperationKind::kConnect:
      absl::StrAppend(&text, "connect: ", std::string(ConnectName(connect)), ", timeout ",
                      timeout_ms, " ms", with_read_only ? "" : ", without readOnly");
      break;
    case OperationKind::kDrop:
      absl::StrAppend(&text, "drop the connection");
      break;
    case OperationKind::kRequests:
      for (size_t i = 0; i < requests.size(); ++i) {
        absl::StrAppend(&text, i > 0 ? " | " : "", "[xid ", requests[i].xid, "] ",
                        requests[i].text);
      }
  }
  return text;
}

std::string OpName(wire::OpCode op) {
  const rpc::zk::OpCodeInfo& info = rpc::zk::InfoOf(op);
  return &info == &rpc::zk::kUnknownOpCode ? absl::StrCat("opcode ", static_cast<int32_t>(op))
                                           : std::string(info.name);
}

bool KeepsConnection(wire::OpCode op) { return op != wire::kSasl && rpc::zk::IsServed(op); }

std::string ErrorName(int32_t error) {
  static const auto* names = new std::map<int32_t, const char*>{
      {0, "Ok"},
      {-1, "SystemError"},
      {-2, "RuntimeInconsistency"},
      {-5, "MarshallingError"},
      {-6, "Unimplemented"},
      {-8, "BadArguments"},
      {-101, "NoNode"},
      {-102, "NoAuth"},
      {-103, "BadVersion"},
      {-108, "NoChildrenForEphemerals"},
      {-110, "NodeExists"},
      {-111, "NotEmpty"},
      {-112, "SessionExpired"},
      {-114, "InvalidACL"},
      {-115, "AuthFailed"},
      {-118, "SessionMoved"},
      {-121, "NoWatcher"},
      {-123, "ReconfigDisabled"},
      {-125, "QuotaExceeded"},
  };
  auto name = names->find(error);
  return name == names->end() ? absl::StrCat(error) : absl::StrCat(name->second, "(", error, ")");
}

std::string Printable(const std::string& text) {
  std::string printable;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.size() > kPrintedBytesMax && i == kPrintedBytesMax / 2) {
      const size_t skipped = text.size() - kPrintedBytesMax;
      absl::StrAppend(&printable, "...(", skipped, " bytes)...");
      i += skipped;
    }
    const char c = text[i];
    if (c >= ' ' && c <= '~' && c != '\\') {
      printable += c;
    } else {
      absl::StrAppendFormat(&printable, "\\x%02x", static_cast<unsigned char>(c));
    }
  }
  return printable;
}

bool IsMutation(wire::OpCode op) {
  return (rpc::zk::IsWrite(op) && op != wire::kCheck) || op == wire::kReconfig ||
         op == wire::kCloseSession;
}

}  // namespace quorate::differential
