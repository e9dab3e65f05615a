// SPDX-License-Identifier: Apache-2.0

// Records what clients do in the audit log: the writes of the clients of this server, the attempts
// to authenticate that failed, and the znodes that the cluster itself deletes.
//
// A write is recorded when this server applies it, from its command in the log. So it is recorded
// even if its client has disconnected meanwhile, and once, however often a client has sent it. A
// write that a front end refuses has no command: the front end records it.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rpc/audit/audit_log.h"
#include "tree/command.h"
#include "tree/tree.h"
#include "tree/types.h"

namespace quorate::rpc {

class RequestAudit {
 public:
  // `log` must outlive the object. `any_sasl_id` is the id of letAnySaslUserDoX, which the requests
  // of all SASL users carry beside their own, and which is nobody's name; empty: there is none.
  explicit RequestAudit(AuditLog* log, std::string any_sasl_id = {})
      : log_(log), any_sasl_id_(std::move(any_sasl_id)) {}

  AuditLog& log() { return *log_; }

  // Records a command of this server, which was applied with `result`. Does nothing for commands of
  // other kinds than requests, and for repeated requests, which were recorded before.
  void OnCommandApplied(std::string_view command, const tree::ApplyResult& result);
  // Records that a command of the cluster itself has deleted a znode: an ephemeral of `session`,
  // which has ended, or, with kNoSession, a container or a znode with a TTL. Every server records
  // that.
  void OnServerDeletion(tree::SessionId session, std::string_view path);

  // Records a request that was refused before it went to the log. `session` may be kNoSession;
  // `identities` are the client's.
  void OnRefused(tree::SessionId session, std::span<const tree::Identity> identities,
                 const tree::Request& request);
  // As OnRefused, for a request of which only the operation is known.
  void OnRefused(tree::SessionId session, std::span<const tree::Identity> identities,
                 std::string_view operation);
  // Records a change of the members that a client has asked for by reconfig. `is_done` is false if it
  // failed, or if its outcome is not known.
  void OnReconfig(tree::SessionId session, std::span<const tree::Identity> identities,
                  bool is_done);
  // Records that a client could not prove an identity, or has not proved one that is required.
  // `reason` begins with the scheme, or says what is required, and holds no secret. `identities` are those that the client has proved before.
  void OnFailedAuthentication(tree::SessionId session, std::span<const tree::Identity> identities,
                              std::string_view reason);
  // As OnFailedAuthentication, for a client that has no more than an address.
  void OnFailedAuthentication(std::string_view address, std::string_view reason);

 private:
  AuditLog* const log_;
  const std::string any_sasl_id_;
};

// The operation of a multi, in the audit log.
inline constexpr std::string_view kAuditMultiOperation = "multiOperation";

// Returns the operation of the audit log that `op` is; empty if it is none, such as a check.
std::string_view AuditOperation(const tree::Op& op);

// Returns the entries of an access control list as the audit log shows them: scheme:id:permissions,
// with nothing between entries, and "x" in the place of a password or its hash.
std::string AuditAclText(std::span<const tree::Acl> acl);

}  // namespace quorate::rpc
