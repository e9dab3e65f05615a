// SPDX-License-Identifier: Apache-2.0

// The configuration files that follow the members, as ZooKeeper writes them: the static file zoo.cfg,
// whose last line names the dynamic file zoo.cfg.dynamic.VERSION, which has a server.N line for each
// member. VERSION is that of /zookeeper/config. Older dynamic files stay, as in ZooKeeper.
//
// The membership in the log decides who the members are; the files show it to people and scripts, and
// say on which ports a server listens at its next start.
//
// Thread-safety: functions without state, and a class that one thread uses at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "consensus/log/env.h"
#include "rpc/config/config.h"
#include "rpc/config/server_line.h"

namespace quorate::rpc {

// Returns the members in `text`, the content of /zookeeper/config.
ServerLines MembersOfText(std::string_view text);

// Returns the content of a dynamic file, as ZooKeeper writes it: lines sorted as text, without a
// version, and without a newline at the end.
std::string DynamicFileText(const ServerLines& members);

// Which of clientPort and clientPortAddress move from the static file to the server's own line.
enum class ClientKeys : uint8_t { kMove, kAddressStays, kStay };

// Returns `text`, the content of a static file, with `dynamic_file` as its last line's
// dynamicConfigFile, and without the keys that the dynamic file takes over: those of members, groups,
// weights and peerType, and clientPort and clientPortAddress as `client_keys` says. All other lines
// stay as they are, comments too.
std::string StaticFileText(std::string_view text, std::string_view dynamic_file,
                           ClientKeys client_keys);

// Returns the line of the server itself for its dynamic file. `line` is its line in the log, which has
// the addresses that others use: behind a translation of addresses, the server cannot listen there. So
// only the role is taken from it, and the next start listens where this one does, as `config` says.
ServerLine OwnLine(const Config& config, ServerLine line);

class MemberFiles {
 public:
  // `env` outlives the object. `config` is the configuration that the server runs with.
  MemberFiles(const Config& config, consensus::Env* env) : config_(config), env_(env) {}

  // Returns whether a server with this configuration keeps its files up to date: it has a
  // dynamicConfigFile, or reconfigEnabled=true and server.N lines.
  static bool IsConfigured(const Config& config) {
    return !config.standalone() && (config.reconfig_enabled || !config.members_file.empty());
  }

  // Makes the files show `members`, of which the server is one. Each file is replaced whole and
  // durably, the static one last. The first time, zoo.cfg.bak keeps the static file with its server.N
  // lines. Does nothing if the files show this version already, or if the server is none of the
  // members: it could not start with lines that lack its own. Returns an error, and leaves the files as they were,
  // if one cannot be written, or if the server would not start as the same member with them.
  absl::Status Update(ServerLines members, int64_t version);

 private:
  absl::Status Replace(const std::string& path, const std::string& text);
  absl::Status WriteTemporary(const std::string& path, const std::string& text);
  // Returns an error unless the server would start with `static_file` as the member that it is.
  absl::Status CheckStarts(const std::string& static_file) const;
  absl::Status ReplaceStaticFile(const std::string& before, const std::string& after);

  const Config config_;
  consensus::Env* const env_;
  std::string static_file_;  // without symbolic links; set by Update
};

}  // namespace quorate::rpc
