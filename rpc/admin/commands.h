// SPDX-License-Identifier: Apache-2.0

// The commands of ZooKeeper's AdminServer: names, aliases, and the JSON that they return. Text escapes
// and the order of fields are those of ZooKeeper 3.9.
//
// Thread-safety: constant tables; a Commands object may be used by any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "rpc/admin/http.h"
#include "rpc/admin/json_text.h"
#include "rpc/admin/request_target.h"
#include "rpc/config/config.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/authorization.h"
#include "rpc/frontend/service.h"
#include "rpc/zookeeper/frontend.h"

namespace quorate::rpc::admin {

// The most sessions, connections or paths that one response shows, and the bytes of paths. If there
// are more, "error" says so.
inline constexpr size_t kShownMax = 20'000;
inline constexpr size_t kPathBytesShownMax = 4u << 20;

// What a command reads.
struct CommandContext {
  const Config& config;
  zk::ZkFrontend& frontend;
  Administration& administration;
  const Clock& clock;
  const std::string& initial_configuration;  // without secrets
  const RequestTarget& target;
  ServerStatus status;

  Service& service() const { return frontend.service(); }
};

struct CommandInfo {
  std::string_view name;
  std::string_view aliases[2];  // empty: none
  Operation operation;
  bool needs_serving;  // refused while the server has no leader
  // Adds the fields. A field "error" makes the command a failure. nullptr: AdminFrontend runs it.
  void (*run)(const CommandContext& context, Json* fields);
};

class Commands {
 public:
  // All must outlive the object. `initial_configuration` is the text of the configuration file.
  Commands(const Config& config, zk::ZkFrontend* frontend, Administration* administration,
           const Clock* clock, std::string_view initial_configuration);

  // Returns all commands, by name.
  static std::span<const CommandInfo> All();
  // Returns the command with this name or alias; nullptr if there is none.
  static const CommandInfo* Find(std::string_view name);

  // Returns the page with a link to each command, for `GET /commands`.
  static HttpResponse Index(std::string_view command_url);
  // Runs a command for a caller that may run it. May read files. REQUIRES: `command.run`.
  HttpResponse Run(const CommandInfo& command, const RequestTarget& target) const;
  // Returns the response to a command that is not run; status 200 as in ZooKeeper, or an error.
  static HttpResponse Refuse(unsigned status, std::string_view name, std::string_view error);
  // Returns the response to a command that AdminFrontend has run.
  static HttpResponse Succeed(std::string_view name, Json fields);
  // Returns the response to a command that needs a server that serves.
  static HttpResponse RefuseIdle(std::string_view name);

 private:
  const Config& config_;
  zk::ZkFrontend* const frontend_;
  Administration* const administration_;
  const Clock* const clock_;
  const std::string initial_configuration_;
};

// Returns the text of a configuration file with "(hidden)" in place of each secret, one line for each
// setting, without comments.
std::string WithoutSecrets(std::string_view configuration);

}  // namespace quorate::rpc::admin
