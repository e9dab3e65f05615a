// SPDX-License-Identifier: Apache-2.0

// The changes that the web console makes. Each is a POST with a JSON object as its body:
//
//   create               {path, data, acl}     data in base64; acl: "world", "creator" or "readers"
//   set                  {path, data, version} the version is the one that the user has seen
//   delete               {path, version}
//   close-session        {session}             "0x..."
//   transfer-leadership  {member}              0: to the most up-to-date voter
//   change-members       {change, member, line, membership}
//                        change: "add" (as an observer), "remove", "promote" or "demote"; line: the addresses
//                        of the added member, empty for other changes; membership: the membership_index of the
//                        members that the user has seen
//
// Who sends it has passed the checks of Console. The tree is written through the log, with the
// identities of the caller, so that access control lists, quotas and the audit log treat it as any
// client's write. Of a write whose identities do not have the name of who made it, such as that of an
// administrator's token, the audit log has a line "consoleChange" with that name too.
//
// Thread-safety: Respond is called from one thread at a time, and waits for the cluster; Close from
// any.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "rpc/admin/console_response.h"
#include "rpc/audit/audit_log.h"
#include "rpc/audit/request_audit.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/session_closer.h"
#include "rpc/frontend/tree_writer.h"

namespace quorate::rpc::admin {

// The data that can be written: what fits into a request, in base64, beside a path.
inline constexpr size_t kConsoleWriteBytesMax = 40u << 10;

class ConsoleChanges {
 public:
  // The time for which Respond waits for the outcome of a change. A change without one by then may have
  // been made or not.
  static constexpr auto kWait = std::chrono::seconds(10);

  // All outlive the object. `writer` and `closer` may be null: then nothing is changed.
  struct Parts {
    Administration* administration = nullptr;
    TreeWriter* writer = nullptr;
    SessionCloser* closer = nullptr;
    AuditLog* audit = nullptr;              // null: there is none
    RequestAudit* request_audit = nullptr;  // null: there is none
  };
  explicit ConsoleChanges(const Parts& parts) : parts_(parts) {}

  // Returns whether there is a change of this name, and whether it is one of the tree.
  static bool IsChange(std::string_view name);
  static bool IsOfTree(std::string_view name);

  // Carries out a change. REQUIRES: IsChange(name). A caller that `may` not make it is refused, and that is
  // recorded in the audit log.
  HttpResponse Respond(std::string_view name, const HttpRequest& request,
                       const ConsoleCaller& caller, bool may);
  // Records that the caller has sent wrong credentials. Any thread.
  void RecordFailedAuthentication(const ConsoleCaller& caller) const;
  // Stops waiting for the change that is under way, whose outcome is then not known, and refuses all
  // later ones.
  void Close();

 private:
  class Wait;

  HttpResponse ChangeTree(std::string_view name, const Json& body, const ConsoleCaller& caller,
                          bool may);
  // Returns what records the result of a change of the tree with the name of the caller; it does
  // nothing if the identities have that name.
  std::function<void(AuditResult result)> ActorRecorder(const tree::Op& op,
                                                        const ConsoleCaller& caller) const;
  HttpResponse CloseSession(const Json& body, const ConsoleCaller& caller, bool may);
  HttpResponse TransferLeadership(const Json& body, const ConsoleCaller& caller, bool may);
  HttpResponse ChangeMembers(const Json& body, const ConsoleCaller& caller, bool may);
  // Waits until the wait is ended. Returns false if that did not happen in time.
  bool Await(const std::shared_ptr<Wait>& wait);

  const Parts parts_;
  Mutex mutex_;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Wait> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc::admin
