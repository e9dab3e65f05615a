// SPDX-License-Identifier: Apache-2.0

#include "rpc/audit/request_audit.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/status/statusor.h"

namespace quorate::rpc {
namespace {

using tree::Identity;
using tree::Op;
using tree::OpKind;

// Returns the name of an identity: without the hash of a password. Empty: it is not a user's.
std::string_view UserName(const Identity& identity) {
  const std::string_view id = identity.id;
  if (identity.scheme == "digest") return id.substr(0, id.find(':'));
  // An administrator's identity has no name. The one that proved it is another identity.
  return identity.scheme == "super" || identity.scheme == "world" ? std::string_view() : id;
}

// Returns whether a client cannot make up an identity of this scheme.
bool HasProof(const Identity& identity) {
  return identity.scheme == "sasl" || identity.scheme == "x509";
}

// The client of a request.
class Client {
 public:
  // The names that the client has proved by SASL or a certificate come first, then those of its
  // other identities, then its address. Only so much is shown, and a client can make up digest
  // identities with long names, which must not push out the names that it had to prove.
  // `any_sasl_id` is RequestAudit's.
  Client(std::span<const Identity> identities, std::string_view any_sasl_id) {
    for (const bool has_proof : {true, false}) {
      for (const Identity& identity : identities) {
        if (identity.scheme == "sasl" && identity.id == any_sasl_id) continue;
        if (identity.scheme == "ip") {
          address_ = identity.id;
        } else if (HasProof(identity) == has_proof) {
          Add(UserName(identity));
        }
      }
    }
    Add(address_);
  }

  std::string_view users() const { return users_; }
  std::string_view address() const { return address_; }

 private:
  void Add(std::string_view name) {
    // More would not be shown.
    if (name.empty() || users_.size() > kAuditTextBytesMax) return;
    if (!users_.empty()) users_ += ',';
    users_ += name.substr(0, kAuditTextBytesMax + 1);
  }

  std::string users_;
  std::string_view address_;
};

// Returns whether an id of this scheme may have a password, or the hash of one, behind a colon.
// Lists such as auth:USER:PASSWORD, of which the tree ignores the id, are common. In ids of the other
// schemes a colon is part of an address or a name.
bool MayHaveSecret(std::string_view scheme) {
  return scheme != "world" && scheme != "ip" && scheme != "x509" && scheme != "sasl";
}

bool IsCreate(OpKind kind) {
  return kind == OpKind::kCreate || kind == OpKind::kCreateContainer ||
         kind == OpKind::kCreateTtl || kind == OpKind::kCreateIfNotExists;
}

// Returns ZooKeeper's name of the kind of znode; empty if the mode does not exist.
std::string_view ZnodeType(const Op& op) {
  constexpr std::array<std::string_view, 7> kNames = {
      "persistent", "ephemeral",           "persistent_sequential",         "ephemeral_sequential",
      "container",  "persistent_with_ttl", "persistent_sequential_with_ttl"};
  if (op.kind == OpKind::kCreateContainer) return kNames[4];
  const auto mode = static_cast<size_t>(op.mode);
  return mode < kNames.size() ? kNames[mode] : std::string_view();
}

// Returns whether an operation that succeeded has changed nothing, as its kind allows.
bool HadNoEffect(const Op& op, const tree::OpResult& result) {
  if (op.kind == OpKind::kCreateIfNotExists) return result.stat.czxid == tree::Zxid(0);
  return (op.kind == OpKind::kTryDelete || op.kind == OpKind::kRemoveSubtree) &&
         result.removed == 0;
}

// Records one operation. `path` is the final one.
void RecordOp(const Op& op, std::string_view path, AuditResult result, AuditEvent event,
              AuditLog* log) {
  event.operation = AuditOperation(op);
  if (event.operation.empty()) return;
  event.znode = path;
  event.result = result;
  if (IsCreate(op.kind)) event.znode_type = ZnodeType(op);
  std::string acl;
  if (op.kind == OpKind::kSetAcl) {
    acl = AuditAclText(op.acl);
    event.acl = acl;
  }
  log->Record(event);
}

AuditEvent EventOf(tree::SessionId session, const Client& client) {
  AuditEvent event;
  event.session = session.value();
  event.user = client.users();
  event.ip = client.address();
  return event;
}

void RecordFailed(tree::SessionId session, const tree::Request& request, const Client& client,
                  AuditLog* log) {
  AuditEvent event = EventOf(session, client);
  if (!request.multi) {
    for (const Op& op : request.ops) RecordOp(op, op.path, AuditResult::kFailure, event, log);
    return;
  }
  event.operation = kAuditMultiOperation;
  event.result = AuditResult::kFailure;
  log->Record(event);
}

// Records a request whose operations were applied, with one result for each of the branch.
void RecordApplied(tree::SessionId session, const tree::Request& request, const Client& client,
                   const tree::ApplyResult& result, AuditLog* log) {
  const std::span<const tree::OpResult> results = result.ops;
  const bool failed = std::ranges::any_of(
      results, [](const tree::OpResult& one) { return one.error != tree::ErrorCode::kOk; });
  // Of a command that was refused as a whole, the branch is not known.
  if (failed || result.error != tree::ErrorCode::kOk) {
    RecordFailed(session, request, client, log);
    return;
  }
  const std::span<const Op> ops = tree::OpsOf(request, result.branch);
  for (size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    const std::string_view path = results[i].path.empty() ? op.path : results[i].path;
    const bool had_effect = !HadNoEffect(op, results[i]);
    AuditEvent event = EventOf(session, client);
    std::string detail;
    if (results[i].added_parents > 0) {
      // The lowest ones: those above them existed.
      detail = "added_parents=" + std::to_string(results[i].added_parents);
      event.detail = detail;
    }
    RecordOp(op, path, had_effect ? AuditResult::kSuccess : AuditResult::kFailure, event, log);
  }
}

}  // namespace

std::string_view AuditOperation(const Op& op) {
  switch (op.kind) {
    case OpKind::kCreate:
    case OpKind::kCreateContainer:
    case OpKind::kCreateTtl:
    case OpKind::kCreateIfNotExists:
      return "create";
    case OpKind::kDelete:
    case OpKind::kTryDelete:
      return "delete";
    case OpKind::kDeleteRecursive:
    case OpKind::kRemoveSubtree:
      return "deleteRecursive";
    case OpKind::kSetData:
      return "setData";
    case OpKind::kSetAcl:
      return "setAcl";
    case OpKind::kCheck:
    case OpKind::kCheckAbsent:
    case OpKind::kCheckCreated:
    case OpKind::kCheckNotExists:
    case OpKind::kCheckStat:
    case OpKind::kGet:
    case OpKind::kExists:
    case OpKind::kGetChildren:
    case OpKind::kRefused:  // the front end that refused the request has recorded it
      break;
  }
  return {};
}

std::string AuditAclText(std::span<const tree::Acl> acl) {
  std::string text;
  for (const tree::Acl& entry : acl) {
    if (text.size() > kAuditPathBytesMax) break;  // more would not be shown
    text += entry.identity.scheme;
    text += ':';
    const std::string_view id = entry.identity.id;
    const size_t colon = id.find(':');
    if (MayHaveSecret(entry.identity.scheme) && colon != std::string_view::npos) {
      text += id.substr(0, colon);
      text += ":x";
    } else {
      text += id;
    }
    text += ':';
    constexpr std::pair<int32_t, char> kLetters[] = {{tree::permission::kCreate, 'c'},
                                                     {tree::permission::kDelete, 'd'},
                                                     {tree::permission::kRead, 'r'},
                                                     {tree::permission::kWrite, 'w'},
                                                     {tree::permission::kAdmin, 'a'}};
    for (const auto& [permission, letter] : kLetters) {
      if ((entry.permissions & permission) != 0) text += letter;
    }
  }
  return text;
}

void RequestAudit::OnCommandApplied(std::string_view command, const tree::ApplyResult& result) {
  if (result.repeated) return;
  const tree::SessionId session = result.header.session;
  if (result.header.kind == tree::CommandKind::kRequest) {
    const absl::StatusOr<tree::Request> request = tree::DecodeRequest(command);
    if (request.ok()) {
      RecordApplied(session, *request, Client(request->identities, any_sasl_id_), result, log_);
    }
  } else if (result.header.kind == tree::CommandKind::kSequencedRequest) {
    const absl::StatusOr<tree::SequencedRequest> sequenced = tree::DecodeSequencedRequest(command);
    if (!sequenced.ok()) return;
    const tree::Request& inner = sequenced->request;
    RecordApplied(session, inner, Client(inner.identities, any_sasl_id_), result, log_);
  }
}

void RequestAudit::OnServerDeletion(tree::SessionId session, std::string_view path) {
  AuditEvent event;
  event.session = session.value();
  event.operation = session == tree::kNoSession ? "containerOrTtlZNodeDeletion"
                                                : "ephemeralZNodeDeletionOnSessionCloseOrExpire";
  event.znode = path;
  log_->RecordOwn(event);
}

void RequestAudit::OnRefused(tree::SessionId session, std::span<const Identity> identities,
                             const tree::Request& request) {
  RecordFailed(session, request, Client(identities, any_sasl_id_), log_);
}

void RequestAudit::OnRefused(tree::SessionId session, std::span<const Identity> identities,
                             std::string_view operation) {
  const Client client(identities, any_sasl_id_);
  AuditEvent event = EventOf(session, client);
  event.operation = operation;
  event.result = AuditResult::kFailure;
  log_->Record(event);
}

void RequestAudit::OnReconfig(tree::SessionId session, std::span<const Identity> identities,
                              bool is_done) {
  const Client client(identities, any_sasl_id_);
  AuditEvent event = EventOf(session, client);
  event.operation = "reconfig";
  event.result = is_done ? AuditResult::kSuccess : AuditResult::kFailure;
  log_->Record(event);
}

void RequestAudit::OnFailedAuthentication(tree::SessionId session,
                                          std::span<const Identity> identities,
                                          std::string_view reason) {
  const Client client(identities, any_sasl_id_);
  AuditEvent event = EventOf(session, client);
  event.operation = "authenticate";
  event.detail = reason;
  event.result = AuditResult::kFailure;
  log_->Record(event);
}

void RequestAudit::OnFailedAuthentication(std::string_view address, std::string_view reason) {
  AuditEvent event;
  event.ip = address;
  event.operation = "authenticate";
  event.detail = reason;
  event.result = AuditResult::kFailure;
  log_->Record(event);
}

}  // namespace quorate::rpc
