// SPDX-License-Identifier: Apache-2.0

// The HTTP front end: ZooKeeper's commands, /metrics and /health on admin.serverPort, and /metrics on
// metricsProvider.httpPort if the configuration names the Prometheus provider.
//
//   /                       the paths, as text; for a browser, the web console (console.h)
//   /console/...            the files and the JSON of the web console
//   /commands               links to the commands (admin.commandURL)
//   /commands/NAME          a command, by its name or an alias
//   /metrics                ?name[]=N shows only the metrics named
//   /health/...             health.h
//
// Who may call what is in rpc/frontend/authorization.h. Administrators authenticate as over gRPC. A
// request that a browser sends for a page of another site is refused where an administrator is
// needed, as the user of the browser has not asked for it.
//
// Thread-safety: Open and Close are called from one thread; the rest from the threads of the servers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rpc/admin/commands.h"
#include "rpc/admin/console.h"
#include "rpc/admin/http_server.h"
#include "rpc/admin/metrics_page.h"
#include "rpc/admin/snapshot_command.h"
#include "rpc/audit/audit_log.h"
#include "rpc/frontend/administrators.h"
#include "rpc/tls/current_context.h"

namespace quorate::rpc::admin {

// What the front end uses; everything must outlive it.
struct AdminParts {
  const Config& config;
  zk::ZkFrontend* frontend;
  Administration* administration;
  Administrators* administrators;
  const Clock* clock;
  AuditLog* audit = nullptr;  // records what administrators change
  // By which the console makes changes; null: it makes none.
  TreeWriter* writer = nullptr;
  SessionCloser* closer = nullptr;
  std::string_view version;  // of the program
  std::string_view configuration_text;
  // Returns the contexts of TLS whose certificates are shown; a pointer may be null.
  std::function<std::shared_ptr<const tls::Context>()> client_tls;
};

class AdminFrontend {
 public:
  explicit AdminFrontend(const AdminParts& parts);
  ~AdminFrontend();
  AdminFrontend(const AdminFrontend&) = delete;
  AdminFrontend& operator=(const AdminFrontend&) = delete;

  // Begins to serve the ports that are configured, if any. An error names the key and the way out.
  absl::Status Open();
  void Close();
  // Returns the port of admin.serverPort. REQUIRES: it is open.
  uint16_t port() const { return admin_server_->port(); }

  // Returns the metrics with these names, or all if there are none, in the text format of Prometheus.
  // REQUIRES: Open has succeeded.
  std::string MetricsText(const std::set<std::string, std::less<>>& names);

  // Returns the response to a request on admin.serverPort.
  HttpResponse Respond(const HttpRequest& request);
  // Returns the response to a request on metricsProvider.httpPort.
  HttpResponse RespondWithMetrics(const HttpRequest& request);

 private:
  class AdminHandler;
  class MetricsHandler;

  HttpResponse RunCommand(std::string_view name, const RequestTarget& target,
                          const HttpRequest& request);
  // Runs a command for a caller that may run it.
  HttpResponse RunAllowed(const CommandInfo& command, const RequestTarget& target,
                          const HttpRequest& request);
  void Record(const CommandInfo& command, const Principal& caller, const HttpResponse& response);
  // Returns the command that a target, as it was sent, names; nullptr if there is none.
  const CommandInfo* CommandOf(std::string_view target) const;
  // Returns the response to a caller that may not run the command; nullopt if it may. Sets `*caller`
  // to what it has proved.
  std::optional<HttpResponse> CheckCaller(const CommandInfo& command, const HttpRequest& request,
                                          Principal* caller);
  // Adds to `*caller` what the header Authorization proves.
  absl::Status Authenticate(const HttpRequest& request, Principal* caller);
  HttpResponse Metrics(const RequestTarget& target);
  std::string Overview() const;
  absl::Status OpenTls();
  // Counts a failed handshake at admin.serverPort, and logs and records it at most once in a while.
  void OnFailedHandshake(const std::string& address, std::string_view why, bool is_refused);

  const AdminParts parts_;
  Commands commands_;
  SnapshotCommand snapshots_;
  MetricsPage metrics_;
  Console console_;
  std::unique_ptr<AdminHandler> admin_handler_;
  std::unique_ptr<MetricsHandler> metrics_handler_;
  // Of the stores ssl.quorum.*; null if they are not used.
  std::unique_ptr<tls::CurrentContext> tls_;
  // When a failed handshake was last logged and recorded; used by the server of admin.serverPort alone.
  std::optional<std::chrono::steady_clock::time_point> handshake_logged_;
  std::optional<std::chrono::steady_clock::time_point> handshake_recorded_;
  std::optional<HttpServer> admin_server_;
  std::optional<HttpServer> metrics_server_;
};

}  // namespace quorate::rpc::admin
