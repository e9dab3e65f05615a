#include "tests/differential/operation.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/zk/wire/wire.h"

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

const std::map<int32_t, const char*>& Names() {
  static const auto* names = new std::map<int32_t, const char*>{
      {wire::kCreate, "create"},
      {wire::kDelete, "delete"},
      {wire::kExists, "exists"},
      {wire::kGetData, "getData"},
      {wire::kSetData, "setData"},
      {wire::kGetAcl, "getACL"},
      {wire::kSetAcl, "setACL"},
      {wire::kGetChildren, "getChildren"},
      {wire::kSync, "sync"},
      {wire::kPing, "ping"},
      {wire::kGetChildrenWithStat, "getChildren2"},
      {wire::kCheck, "check"},
      {wire::kMulti, "multi"},
      {wire::kCreateWithStat, "create2"},
      {wire::kReconfig, "reconfig"},
      {wire::kCheckWatches, "checkWatches"},
      {wire::kRemoveWatches, "removeWatches"},
      {wire::kCreateContainer, "createContainer"},
      {wire::kDeleteContainer, "deleteContainer"},
      {wire::kCreateTtl, "createTTL"},
      {wire::kMultiRead, "multiRead"},
      {wire::kAuth, "auth"},
      {wire::kSetWatches, "setWatches"},
      {wire::kSasl, "sasl"},
      {wire::kGetEphemerals, "getEphemerals"},
      {wire::kGetAllChildrenNumber, "getAllChildrenNumber"},
      {wire::kSetWatches2, "setWatches2"},
      {wire::kAddWatch, "addWatch"},
      {wire::kWhoAmI, "whoAmI"},
      {wire::kCloseSession, "closeSession"},
  };
  return *names;
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

std::string OpName(int32_t op) {
  auto name = Names().find(op);
  return name == Names().end() ? absl::StrCat("opcode ", op) : name->second;
}

bool IsServed(int32_t op) { return op != wire::kSasl && Names().count(op) > 0; }

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

bool IsMutation(int32_t op) {
  switch (op) {
    case wire::kCreate:
    case wire::kCreateWithStat:
    case wire::kCreateContainer:
    case wire::kCreateTtl:
    case wire::kDelete:
    case wire::kDeleteContainer:
    case wire::kSetData:
    case wire::kSetAcl:
    case wire::kMulti:
    case wire::kReconfig:
    case wire::kCloseSession:
      return true;
    default:
      return false;
  }
}

}  // namespace quorate::differential
