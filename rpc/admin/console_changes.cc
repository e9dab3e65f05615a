// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/console_changes.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "base/condition_variable.h"
#include "base/escape.h"
#include "base/strings.h"
#include "rpc/frontend/member_change.h"
#include "tree/acl.h"
#include "tree/path.h"

namespace quorate::rpc::admin {
namespace {

constexpr char kOutcomeUnknown[] =
    "the cluster has not confirmed the change in time; it may have been made or not: show the page "
    "again to see which";
constexpr char kForbidden[] =
    "changes need an administrator, or for znodes a user whom admin.console.changes lets make "
    "them: "
    "by default one with a certificate, or one who has signed in on the server's own machine";

constexpr uint32_t kMemberNumberMax = 254;
// Of the addresses of a member: room for two host names of 255 bytes and four port numbers.
constexpr size_t kLineBytesMax = 600;

constexpr auto kText = Json::value_t::string;
constexpr auto kNumber = Json::value_t::number_integer;

struct Field {
  std::string_view key;
  Json::value_t type;
};

// Returns whether the body is an object with these fields and no others. Numbers have to be integers.
bool HasFields(const Json& body, std::initializer_list<Field> fields) {
  if (!body.is_object() || body.size() != fields.size()) return false;
  return std::all_of(fields.begin(), fields.end(), [&body](const Field& field) {
    const auto found = body.find(std::string(field.key));
    if (found == body.end()) return false;
    return field.type == kNumber ? found->is_number_integer() : found->type() == field.type;
  });
}

// Sets a number that is from 0 to the maximum of its type. Returns false for another one.
template <class Number>
bool TakeNumber(const Json& value, Number* number) {
  // Of a number beyond 64 bits, the parser makes a floating one, which is no integer.
  if (!value.is_number_unsigned()) return false;
  const auto wide = value.get<uint64_t>();
  if (wide > static_cast<uint64_t>(std::numeric_limits<Number>::max())) return false;
  *number = static_cast<Number>(wide);
  return true;
}

// Returns the list that is chosen by name; nullopt if there is none.
std::optional<std::vector<tree::Acl>> ListOf(std::string_view name) {
  const tree::Acl creator{tree::permission::kAll, {"auth", ""}};
  if (name == "world") return tree::OpenAcl();
  if (name == "creator") return std::vector{creator};
  if (name == "readers") {
    return std::vector{creator, tree::Acl{tree::permission::kRead, {"world", "anyone"}}};
  }
  return std::nullopt;
}

// A change of the tree, with the bytes to which its operation points.
struct TreeChange {
  std::string path;
  std::string data;
  tree::Op op;
};

// Returns what is wrong with the body; empty if `*change` is what it says.
std::string Parse(std::string_view name, const Json& body, TreeChange* change) {
  const bool is_create = name == "create";
  const bool has_data = name != "delete";
  const bool is_good =
      is_create  ? HasFields(body, {{"path", kText}, {"data", kText}, {"acl", kText}})
      : has_data ? HasFields(body, {{"path", kText}, {"data", kText}, {"version", kNumber}})
                 : HasFields(body, {{"path", kText}, {"version", kNumber}});
  if (!is_good) {
    return is_create  ? "the body has to be {path, data, acl}, all of them texts"
           : has_data ? "the body has to be {path, data, version}: two texts and a whole number"
                      : "the body has to be {path, version}: a text and a whole number";
  }
  change->path = body["path"].get<std::string>();
  if (!tree::IsValidPath(change->path)) return "path has to be that of a znode, such as /a/b";
  change->op.path = change->path;
  change->op.kind = is_create  ? tree::OpKind::kCreate
                    : has_data ? tree::OpKind::kSetData
                               : tree::OpKind::kDelete;
  if (has_data) {
    if (!absl::Base64Unescape(body["data"].get<std::string>(), &change->data)) {
      return "data has to be base64";
    }
    if (change->data.size() > kConsoleWriteBytesMax) {
      return absl::StrCat("data may have ", kConsoleWriteBytesMax,
                          " bytes here; use `quorate shell` or another client for more");
    }
    change->op.has_data = true;
    change->op.data = change->data;
  }
  if (!is_create) {
    return TakeNumber(body["version"], &change->op.version)
               ? ""
               : "version has to be the version that the znode has, from 0 on";
  }
  auto list = ListOf(body["acl"].get<std::string>());
  if (!list.has_value()) return "acl has to be world, creator or readers";
  change->op.acl = *std::move(list);
  return "";
}

HttpResponse TreeOutcome(const TreeChange& change, const tree::OpResult& result) {
  const bool is_create = change.op.kind == tree::OpKind::kCreate;
  const std::string name = EscapeLine(change.path) + ": ";
  switch (result.error) {
    case tree::ErrorCode::kOk:
      return JsonResponse(
          200, {{"path", is_create ? result.path : change.path}, {"version", result.stat.version}});
    case tree::ErrorCode::kNoNode:
      return Failure(404, name + (is_create ? "there is no znode above it; create that first"
                                            : "there is no such znode any more"));
    case tree::ErrorCode::kNodeExists:
      return Failure(409, name + "there is a znode of this name already");
    case tree::ErrorCode::kBadVersion:
      return Failure(
          409,
          name + absl::StrCat("it was changed after version ", change.op.version,
                              ", which you have seen, and nothing was written; show it again"));
    case tree::ErrorCode::kNotEmpty:
      return Failure(409, name + "it has children; delete those first");
    case tree::ErrorCode::kNoChildrenForEphemerals:
      return Failure(
          409,
          name + "the znode above it is ephemeral, and cannot have children; choose another path");
    case tree::ErrorCode::kNoAuth:
      return Failure(403, name +
                              "its access control list, or that of the znode above it, does not "
                              "let you do this; sign in as a user in that list");
    case tree::ErrorCode::kInvalidAcl:
      return Failure(400, name + "\"creator\" and \"readers\" need an identity: sign in as a user");
    case tree::ErrorCode::kQuotaExceeded:
      return Failure(
          409,
          name + "a quota does not allow it; `quorate shell listquota` shows the limits of a path");
    default:
      return Failure(400, name + std::string(tree::ToString(result.error)));
  }
}

// A change of members, and the membership that its user has seen.
struct MembersChange {
  MemberChange change;
  uint64_t membership = 0;
};

// Returns what is wrong with the body; empty if `*change` is what it says.
std::string ParseMembersChange(const Json& body, MembersChange* change) {
  if (!HasFields(
          body,
          {{"change", kText}, {"member", kNumber}, {"line", kText}, {"membership", kNumber}})) {
    return "the body has to be {change, member, line, membership}: a text, a number, a text and a "
           "number";
  }
  const auto& kind = body["change"].get_ref<const std::string&>();
  if (kind == "add") {
    change->change.kind = MemberChange::Kind::kAdd;
  } else if (kind == "remove") {
    change->change.kind = MemberChange::Kind::kRemove;
  } else if (kind == "promote") {
    change->change.kind = MemberChange::Kind::kPromote;
  } else if (kind == "demote") {
    change->change.kind = MemberChange::Kind::kDemote;
  } else {
    return "change has to be add, remove, promote or demote";
  }
  if (!TakeNumber(body["member"], &change->change.id) || change->change.id == 0 ||
      change->change.id > kMemberNumberMax) {
    return absl::StrCat("member has to be the number of a member, from 1 to ", kMemberNumberMax);
  }
  change->change.server_line = body["line"].get<std::string>();
  if (kind != "add" && !change->change.server_line.empty()) {
    return "line has to be empty, unless a member is added";
  }
  if (change->change.server_line.size() > kLineBytesMax) {
    return absl::StrCat("line may have ", kLineBytesMax, " bytes");
  }
  return TakeNumber(body["membership"], &change->membership)
             ? ""
             : "membership has to be the membership_index of the overview";
}

// Returns the members after a change. An error says why the cluster does not take it.
absl::StatusOr<ServerLines> MembersAfter(const MembersChange& wanted, const ClusterView& view) {
  if (!view.is_leader) {
    return absl::FailedPreconditionError(
        view.leader == consensus::kNoMember
            ? "the cluster has no leader now; try again when it has one"
            : absl::StrCat("this server does not lead; use the console of the leader, member ",
                           view.leader.value()));
  }
  if (view.changing) {
    return absl::FailedPreconditionError("another change of members is under way; wait for it");
  }
  if (view.membership_index.value() != wanted.membership) {
    return absl::AbortedError(
        "the members were changed after the page has shown them; look at them, and try again");
  }
  const absl::StatusOr<ServerLines> now = LinesOf(view);
  if (!now.ok()) return now.status();
  absl::StatusOr<ServerLines> next = NextStep(wanted.change, *now);
  if (!next.ok()) return next.status();
  // A member that is added gets its vote by a change of its own.
  const auto added = next->find(wanted.change.id);
  const bool gives_vote = wanted.change.kind == MemberChange::Kind::kAdd && added != next->end() &&
                          !added->second.observer;
  if (*next == *now || gives_vote) {
    return absl::FailedPreconditionError(
        wanted.change.kind == MemberChange::Kind::kAdd
            ? "it is a member already; give it a vote when it has caught up"
            : "there is nothing to change: it is so already");
  }
  if (std::string reason = ReasonNotToChange(view, *next); !reason.empty()) {
    return absl::FailedPreconditionError(reason);
  }
  return next;
}

unsigned CodeOf(const absl::Status& status) {
  return absl::IsInvalidArgument(status)      ? 400
         : absl::IsNotFound(status)           ? 404
         : absl::IsFailedPrecondition(status) ? 409
         : absl::IsAlreadyExists(status)      ? 409
         : absl::IsAborted(status)            ? 409
         : absl::IsResourceExhausted(status)  ? 507
                                              : 503;
}

HttpResponse StatusFailure(const absl::Status& status) {
  return Failure(CodeOf(status), ToStd(status.message()));
}

// Returns the result of a change that was begun. `outcome`: whether its outcome is known.
AuditResult AuditResultOf(const absl::Status& outcome, bool is_done) {
  if (!outcome.ok()) return AuditResult::kInvoked;
  return is_done ? AuditResult::kSuccess : AuditResult::kFailure;
}

}  // namespace

// What a thread waits for: `End` is called by the thread that has the outcome.
class ConsoleChanges::Wait {
 public:
  void End(absl::Status status, tree::OpResult result = {}) {
    MutexLock lock(&mutex_);
    if (is_over_) return;
    is_over_ = true;
    status_ = std::move(status);
    result_ = std::move(result);
    changed_.NotifyAll();
  }
  // Returns false if it was not ended in time.
  bool Await(std::chrono::steady_clock::time_point deadline) {
    MutexLock lock(&mutex_);
    while (!is_over_) {
      if (!changed_.WaitUntil(&mutex_, deadline)) return is_over_;
    }
    return true;
  }
  absl::Status status() {
    MutexLock lock(&mutex_);
    return status_;
  }
  tree::OpResult result() {
    MutexLock lock(&mutex_);
    return result_;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  tree::OpResult result_ ABSL_GUARDED_BY(mutex_);
};

bool ConsoleChanges::IsOfTree(std::string_view name) {
  return name == "create" || name == "set" || name == "delete";
}

bool ConsoleChanges::IsChange(std::string_view name) {
  return IsOfTree(name) || name == "close-session" || name == "transfer-leadership" ||
         name == "change-members";
}

void ConsoleChanges::Close() {
  MutexLock lock(&mutex_);
  is_closed_ = true;
  if (current_ != nullptr) current_->End(absl::UnavailableError(kOutcomeUnknown));
}

bool ConsoleChanges::Await(const std::shared_ptr<Wait>& wait) {
  {
    MutexLock lock(&mutex_);
    current_ = wait;
    if (is_closed_) wait->End(absl::UnavailableError(kOutcomeUnknown));
  }
  const bool is_over = wait->Await(std::chrono::steady_clock::now() + kWait);
  MutexLock lock(&mutex_);
  current_ = nullptr;
  return is_over;
}

HttpResponse ConsoleChanges::Respond(std::string_view name, const HttpRequest& request,
                                     const ConsoleCaller& caller, bool may) {
  const Json body = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (body.is_discarded()) return Failure(400, "the body has to be JSON");
  if (parts_.writer == nullptr || parts_.closer == nullptr) {
    return Failure(503, "this server makes no changes");
  }
  if (IsOfTree(name)) return ChangeTree(name, body, caller, may);
  if (name == "close-session") return CloseSession(body, caller, may);
  return name == "change-members" ? ChangeMembers(body, caller, may)
                                  : TransferLeadership(body, caller, may);
}

void ConsoleChanges::RecordFailedAuthentication(const ConsoleCaller& caller) const {
  if (parts_.audit == nullptr) return;
  // The name of a caller without a certificate would be that of its address alone.
  const std::string user = caller.principal.subject.empty() ? "" : caller.principal.Name();
  parts_.audit->RecordCall(user, caller.principal.address, "authenticate",
                           "authorization protocol=http", AuditResult::kFailure);
}

std::function<void(AuditResult)> ConsoleChanges::ActorRecorder(const tree::Op& op,
                                                               const ConsoleCaller& caller) const {
  const bool is_named = caller.principal.token.empty() && !caller.principal.is_super &&
                        !caller.identities.shown().empty();
  if (parts_.audit == nullptr || is_named) return [](AuditResult) {};
  return [audit = parts_.audit, user = caller.actor, ip = caller.principal.address,
          detail = absl::StrCat("operation=", ToAbsl(AuditOperation(op)), " protocol=http"),
          path = std::string(op.path)](AuditResult result) {
    audit->Record({.user = user,
                   .ip = ip,
                   .operation = "consoleChange",
                   .znode = path,
                   .detail = detail,
                   .result = result});
  };
}

HttpResponse ConsoleChanges::ChangeTree(std::string_view name, const Json& body,
                                        const ConsoleCaller& caller, bool may) {
  TreeChange change;
  if (const std::string why = Parse(name, body, &change); !why.empty()) {
    return Failure(400, why);
  }
  const auto wait = std::make_shared<Wait>();
  const auto record = ActorRecorder(change.op, caller);
  absl::Status begun = absl::PermissionDeniedError(kForbidden);
  if (may) {
    begun = parts_.writer->Write(
        change.op, caller.identities, [wait, record](absl::StatusOr<tree::OpResult> result) {
          record(
              AuditResultOf(result.status(), result.ok() && result->error == tree::ErrorCode::kOk));
          if (!result.ok()) return wait->End(result.status());
          wait->End(absl::OkStatus(), *std::move(result));
        });
  }
  if (!begun.ok()) {
    record(AuditResult::kFailure);
    if (parts_.request_audit != nullptr) {
      tree::Request request;
      request.ops.push_back(change.op);
      parts_.request_audit->OnRefused(tree::kNoSession, caller.identities.shown(), request);
    }
    return may ? StatusFailure(begun) : Failure(403, kForbidden);
  }
  if (!Await(wait)) return Failure(504, kOutcomeUnknown);
  return wait->status().ok() ? TreeOutcome(change, wait->result()) : StatusFailure(wait->status());
}

HttpResponse ConsoleChanges::CloseSession(const Json& body, const ConsoleCaller& caller, bool may) {
  uint64_t number = 0;
  if (!HasFields(body, {{"session", kText}}) ||
      !body["session"].get_ref<const std::string&>().starts_with("0x") ||
      !absl::SimpleHexAtoi(body["session"].get_ref<const std::string&>().substr(2), &number) ||
      number == 0) {
    return Failure(400, "the body has to be {session}, such as \"0x1a2b\"");
  }
  const auto record = [this, user = caller.actor, ip = caller.principal.address,
                       number](AuditResult result) {
    if (parts_.audit == nullptr) return;
    parts_.audit->RecordCall(user, ip, "closeSession",
                             absl::StrCat("session=0x", absl::Hex(number), " protocol=http"),
                             result);
  };
  if (!may) {
    record(AuditResult::kFailure);
    return Failure(403, "only an administrator closes sessions of others");
  }
  const auto wait = std::make_shared<Wait>();
  // An outcome that comes after the wait is recorded, too.
  const absl::Status begun =
      parts_.closer->Close(tree::SessionId(static_cast<int64_t>(number)),
                           [wait, record](const absl::StatusOr<bool>& closed) {
                             record(AuditResultOf(closed.status(), closed.ok() && *closed));
                             wait->End(!closed.ok() ? closed.status()
                                       : *closed    ? absl::OkStatus()
                                                    : absl::NotFoundError("none"));
                           });
  if (!begun.ok()) {
    record(AuditResult::kFailure);
    return StatusFailure(begun);
  }
  if (!Await(wait)) return Failure(504, kOutcomeUnknown);
  const absl::Status status = wait->status();
  if (absl::IsNotFound(status)) return Failure(404, "there is no such session any more");
  return status.ok() ? JsonResponse(200, Json::object()) : StatusFailure(status);
}

HttpResponse ConsoleChanges::TransferLeadership(const Json& body, const ConsoleCaller& caller,
                                                bool may) {
  uint16_t member = 0;
  if (!HasFields(body, {{"member", kNumber}}) || !TakeNumber(body["member"], &member)) {
    return Failure(400, "the body has to be {member}, the number of a voter, or 0");
  }
  const auto record = [this, user = caller.actor, ip = caller.principal.address,
                       member](bool is_begun) {
    if (parts_.audit == nullptr) return;
    const std::string target = member == 0 ? "" : absl::StrCat("member=", member, " ");
    parts_.audit->RecordCall(user, ip, "transferLeadership", target + "protocol=http",
                             is_begun ? AuditResult::kSuccess : AuditResult::kFailure);
  };
  if (!may) {
    record(false);
    return Failure(403, "only an administrator transfers leadership");
  }
  const auto wait = std::make_shared<Wait>();
  parts_.administration->TransferLeadership(consensus::MemberId(member),
                                            [wait, record](const absl::Status& begun) {
                                              record(begun.ok());
                                              wait->End(begun);
                                            });
  if (!Await(wait)) return Failure(504, kOutcomeUnknown);
  return wait->status().ok() ? JsonResponse(200, Json::object()) : StatusFailure(wait->status());
}

HttpResponse ConsoleChanges::ChangeMembers(const Json& body, const ConsoleCaller& caller,
                                           bool may) {
  MembersChange wanted;
  if (const std::string why = ParseMembersChange(body, &wanted); !why.empty()) {
    return Failure(400, why);
  }
  const std::string& line = wanted.change.server_line;
  const auto record = [this, user = caller.actor, ip = caller.principal.address,
                       detail = absl::StrCat("change=", body["change"].get<std::string>(),
                                             " member=", wanted.change.id,
                                             line.empty() ? "" : " line=", EscapeLine(line),
                                             " protocol=http")](AuditResult result) {
    if (parts_.audit != nullptr) {
      parts_.audit->RecordCall(user, ip, "changeMembers", detail, result);
    }
  };
  if (!may) {
    record(AuditResult::kFailure);
    return Failure(403, "only an administrator changes members");
  }
  const absl::StatusOr<ServerLines> next =
      MembersAfter(wanted, parts_.administration->cluster_view());
  if (!next.ok()) {
    record(AuditResult::kFailure);
    return StatusFailure(next.status());
  }
  const auto wait = std::make_shared<Wait>();
  // An outcome that comes after the wait is recorded, too.
  parts_.administration->ChangeMembers(
      *next, consensus::Index(wanted.membership), [wait, record](const absl::Status& outcome) {
        record(outcome.ok()                ? AuditResult::kSuccess
               : IsUnknownOutcome(outcome) ? AuditResult::kInvoked
                                           : AuditResult::kFailure);
        wait->End(outcome);
      });
  if (!Await(wait)) return Failure(504, kOutcomeUnknown);
  return wait->status().ok() ? JsonResponse(200, Json::object()) : StatusFailure(wait->status());
}

}  // namespace quorate::rpc::admin
