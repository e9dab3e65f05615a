// SPDX-License-Identifier: Apache-2.0

// The web console: its files, which are part of the program (rpc/admin/console), and the JSON from
// which its page shows the cluster and the tree.
//
//   /console/FILE           a file of the page; the page itself is at /
//   /console/api/overview   the members and what is wrong, as this server sees them
//   /console/api/children   ?path=&prefix=&after=&limit= some children of a znode, by name
//   /console/api/slow       the last slow requests, for administrators and the super user
//   /console/api/sessions   ?after=&limit= sessions, for the same
//   /console/api/clients    the connections with most requests, for the same
//   /console/api/watches    ?path= who watches a znode, for the same
//   /console/api/node       ?path= the data, the stat and the access control list of a znode
//   /console/api/events     ?path=&after= changes at and below a znode
//   /console/api/...        POST: the changes of console_changes.h
//
// Administrators and the super user may close sessions, transfer leadership and change members. They, and the users that
// admin.console.changes names, may change the tree, within its access control lists. By default, a user
// and a password alone allow no change from another machine, because anyone can make them up.
//
// A change has to come from a page of this server: it is a POST of JSON whose header Origin or
// Sec-Fetch-Site says so, and it has a token that only such a page can have read (page_token.h). So a
// page of another site cannot make a change with the certificate or the address of a user's browser.
//
// What a request may read of the tree is decided by access control lists, as
// for clients of other protocols: by the header Authorization, "Basic" and the base64 of
// "user:password", which is an identity of the scheme digest; by the client certificate; and by the
// address. An administrator's token passes no list. Credentials are taken, and the tree is shown, only
// over TLS or on this machine. A request without TLS has to name the server by an address, as localhost,
// or by a name of its configuration or of the machine: a page of another site, whose name was made to
// lead here (DNS rebinding), sends its own name. If every client needs a certificate, so does who reads
// the tree here.
//
// Thread-safety: any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rpc/admin/console_changes.h"
#include "rpc/admin/console_response.h"
#include "rpc/admin/http.h"
#include "rpc/admin/json_text.h"
#include "rpc/admin/page_token.h"
#include "rpc/admin/request_target.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/administrators.h"
#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/service.h"
#include "rpc/zookeeper/frontend.h"

namespace quorate::rpc::admin {

inline constexpr std::string_view kConsolePrefix = "/console/";
inline constexpr std::string_view kConsoleApiPrefix = "/console/api/";
// The most children on one page, and the number without ?limit=.
inline constexpr size_t kConsoleChildrenMax = 500;
inline constexpr size_t kConsoleChildrenDefault = 100;
// The bytes of data that are shown of a znode.
inline constexpr size_t kConsoleDataBytesMax = 64u << 10;
// The slow requests that are shown.
inline constexpr size_t kConsoleSlowRequestsMax = 50;
// The entries of an access control list that are shown.
inline constexpr size_t kConsoleAclEntriesMax = 1000;

class Console {
 public:
  // All must outlive the object.
  Console(const Config& config, zk::ZkFrontend* frontend, Administrators* administrators,
          const Clock* clock, const ConsoleChanges::Parts& changes, std::string_view version);
  // Stops waiting for the change that is under way, and refuses all later ones.
  void Close() { changes_.Close(); }

  // Returns whether a request for / is that of a browser, which gets the page.
  static bool WantsPage(const HttpRequest& request);
  // Returns the page, for a browser that asks for /.
  static HttpResponse Page();
  // Returns whether a target, as it was sent, is that of a change.
  static bool IsChange(std::string_view target);
  // Returns the response to a change that is not known to come from a page of this server, of the same
  // caller; nullopt if it is.
  std::optional<HttpResponse> RefuseForeign(const HttpRequest& request) const;
  // Returns the response to a request for a path that begins with kConsolePrefix; nullopt if there
  // is no such path.
  std::optional<HttpResponse> Respond(const RequestTarget& target, const HttpRequest& request);

 private:
  using Caller = ConsoleCaller;
  // Returns who sends the request. PermissionDenied or Unauthenticated, in words for the user of the
  // page.
  absl::Status Identify(const HttpRequest& request, Caller* caller);
  // Returns why the caller may not read the tree at all, whatever the lists say; empty if it may.
  std::string TreeReason(const HttpRequest& request, const Caller& caller) const;
  bool IsAdministrator(const HttpRequest& request, const Caller& caller) const;
  // Returns why a request without TLS may have been led here by the name of another site.
  std::string HostReason(const HttpRequest& request) const;
  // Returns whether the caller may see the sessions, connections and slow requests of all clients, close
  // sessions, and transfer leadership.
  bool SeesAll(const HttpRequest& request, const Caller& caller) const;
  // Returns whether the caller may write to the tree, as far as the lists allow.
  bool MayChangeTree(const HttpRequest& request, const Caller& caller) const;
  // Returns the name of what gave the caller its rights, for the audit log.
  std::string ActorOf(const Caller& caller) const;
  HttpResponse Change(std::string_view name, const HttpRequest& request, const Caller& caller);
  // Returns the response to a request for what is of all clients; nullopt if it is for something else.
  std::optional<HttpResponse> OfAllClients(std::string_view name, const RequestTarget& target,
                                           const HttpRequest& request, const Caller& caller) const;
  HttpResponse Overview(const HttpRequest& request, const Caller& caller) const;
  HttpResponse Slow() const;
  HttpResponse Children(const RequestTarget& target, const Caller& caller) const;
  HttpResponse Node(const RequestTarget& target, const Caller& caller) const;

  const Config& config_;
  zk::ZkFrontend& frontend_;
  Service& service_;
  const Administration& administration_;
  Administrators& administrators_;
  const std::string version_;
  const std::string members_text_;  // the content of /zookeeper/config
  const PageTokens tokens_;
  ConsoleChanges changes_;
};

}  // namespace quorate::rpc::admin
