// SPDX-License-Identifier: Apache-2.0

// The shell: a session with a cluster, and commands on its znodes, typed or from a script.
//
// Thread-safety: one thread at a time.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "tools/shell/command.h"
#include "tools/shell/console.h"
#include "tools/shell/watches.h"

namespace quorate::tools::shell {

struct ShellOptions {
  // The gRPC ports of the servers: "host:port[,host:port...][/chroot]".
  std::string servers;
  TlsOptions tls{};
  // Whether to print one JSON object per line, for each command and each event.
  bool json = false;
  int session_timeout_ms = 30'000;
  // How long a command waits for its answer.
  int timeout_ms = 15'000;
  // Whether commands come from standard input, so that data cannot.
  bool has_commands_on_stdin = false;
};

class Shell {
 public:
  // `console` must outlive the shell.
  Shell(ShellOptions options, Console* console);
  // Closes the session.
  ~Shell();
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  const ShellOptions& options() const { return options_; }
  Console& console() { return *console_; }

  // Closes the current session, if there is one, and opens a new one. If `servers` is empty, uses
  // the same servers.
  absl::Status Connect(const std::string& servers);
  // Closes the session; does nothing if there is none.
  absl::Status Close();
  bool is_connected() const { return client_ != nullptr; }
  // REQUIRES: is_connected().
  Client& client();
  // Returns a client of the whole tree, regardless of the chroot, for /zookeeper. It is valid until
  // Close. REQUIRES: is_connected().
  absl::StatusOr<Client*> WholeTreeClient();
  // Returns the chroot, such as "/a/b" of "host:port/a/b"; empty if there is none.
  const std::string& chroot() const { return chroot_; }
  void AddCredential(Credential credential) { credentials_.push_back(std::move(credential)); }

  Watches& watches() { return watches_; }
  // Returns the paths of ephemeral znodes that this session has created; some may be deleted.
  std::set<std::string>& ephemerals() { return ephemerals_; }

  // Runs a typed line, and prints the result. Returns the exit status: 0, 1 if the command failed,
  // 2 if the line is invalid.
  int RunLine(const std::string& typed);
  int RunWords(const std::vector<std::string>& words);

  // Returns the typed lines, oldest first.
  const std::vector<std::string>& history() const { return history_; }

  // Returns whether `quit` was run.
  bool has_ended() const { return has_ended_; }
  void End() { has_ended_ = true; }

  // Returns the prompt, with the serving member: "[quorate: 10.0.0.1:2281(CONNECTED) 0] ".
  std::string Prompt() const;

 private:
  absl::StatusOr<std::unique_ptr<Client>> MakeClient(const std::string& servers, bool is_main);
  absl::Status Prepare(const Command& command);
  void PrintFailure(const absl::Status& status, const std::string& command, const std::string& path,
                    nlohmann::ordered_json json);

  // The serving member, which the client's thread sets.
  struct Member {
    std::mutex mutex;
    std::string address;
  };

  ShellOptions options_;
  Console* const console_;
  const std::shared_ptr<Member> member_ = std::make_shared<Member>();
  Watches watches_;
  std::string chroot_;
  std::vector<Credential> credentials_;
  std::set<std::string> ephemerals_;
  std::vector<std::string> history_;
  bool has_ended_ = false;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Client> whole_tree_client_;
};

// Splits a line into words at spaces that are not in quotes; a backslash keeps the next character
// unchanged. INVALID_ARGUMENT if a quote is not closed, or a backslash ends the line.
absl::StatusOr<std::vector<std::string>> SplitWords(const std::string& line);

}  // namespace quorate::tools::shell
