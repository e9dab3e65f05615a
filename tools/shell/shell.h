// The shell: a session with a cluster, and commands on its znodes that are typed or come from a
// script.
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
  // "host:port[,host:port...][/chroot]": gRPC ports.
  std::string servers;
  // One object a line, of each command and each event.
  bool json = false;
  int session_timeout_ms = 30'000;
  // How long a command waits for its answer.
  int timeout_ms = 15'000;
  // Whether commands come from standard input, so that data cannot.
  bool has_commands_on_stdin = false;
};

class Shell {
 public:
  // `console` outlives this.
  Shell(ShellOptions options, Console* console);
  // Closes the session.
  ~Shell();
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  const ShellOptions& options() const { return options_; }
  Console& console() { return *console_; }

  // Begins a new session, after the end of the one that there was. Empty: the same servers.
  absl::Status Connect(const std::string& servers);
  // Nothing happens if there is no session.
  absl::Status Close();
  bool is_connected() const { return client_ != nullptr; }
  // REQUIRES: is_connected().
  Client& client();
  // A client of the whole tree, whatever the chroot: /zookeeper is there. Valid until Close.
  // REQUIRES: is_connected().
  absl::StatusOr<Client*> WholeTreeClient();
  // "/a" of "/a/b" behind "host:port"; empty: none.
  const std::string& chroot() const { return chroot_; }
  void AddCredential(Credential credential) { credentials_.push_back(std::move(credential)); }

  Watches& watches() { return watches_; }
  // Paths of ephemeral znodes that this session has created; some may be gone.
  std::set<std::string>& ephemerals() { return ephemerals_; }

  // Runs what was typed, and prints what comes of it. The exit status: 0, 1 if it failed, 2 if it
  // makes no sense.
  int RunLine(const std::string& typed);
  int RunWords(const std::vector<std::string>& words);

  // Lines that were typed, the first one first.
  const std::vector<std::string>& history() const { return history_; }

  // After `quit`.
  bool has_ended() const { return has_ended_; }
  void End() { has_ended_ = true; }

  // With the member that serves: "[quorate: 10.0.0.1:2281(CONNECTED) 0] ".
  std::string Prompt() const;

 private:
  absl::StatusOr<std::unique_ptr<Client>> MakeClient(const std::string& servers, bool is_main);
  absl::Status Prepare(const Command& command);
  void PrintFailure(const absl::Status& status, const std::string& command, const std::string& path,
                    nlohmann::ordered_json json);

  // The member that serves, which the client's thread knows.
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

// The words of a line: by spaces, but for those in quotes; a backslash takes what follows it as it
// is. INVALID_ARGUMENT if a quote has no end, or a backslash nothing behind it.
absl::StatusOr<std::vector<std::string>> SplitWords(const std::string& line);

}  // namespace quorate::tools::shell
