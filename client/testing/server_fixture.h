// SPDX-License-Identifier: Apache-2.0

// Real servers for tests: one server or a small cluster, as child processes with a temporary
// directory and free ports. They are killed when the fixture is destroyed or the program ends.
//
//   absl::StatusOr<std::unique_ptr<ServerFixture>> servers = ServerFixture::Start({.members = 3});
//   auto client = quorate::Client::Connect({.servers = (*servers)->servers()});
//   (*servers)->Kill((*servers)->Leader());
//
// Thread-safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate::testing {

struct ServerFixtureOptions {
  int members = 1;
  // The path of quorated; empty: $QUORATED, or if that is not set the one that Bazel built for this
  // test.
  std::string program{};
  // Lines "key=value" that are added to the configuration of each member.
  std::vector<std::string> settings{};
};

class ServerFixture {
 public:
  // Waits until all members serve.
  static absl::StatusOr<std::unique_ptr<ServerFixture>> Start(ServerFixtureOptions options = {});
  ~ServerFixture();
  ServerFixture(const ServerFixture&) = delete;
  ServerFixture& operator=(const ServerFixture&) = delete;

  // Returns the addresses of all members, for ClientOptions::servers.
  std::string servers() const;

  // Members are numbered from 1.
  int members() const { return static_cast<int>(members_.size()); }
  std::string address(int member) const;
  // Returns the host:port of the member's ZooKeeper front end.
  std::string zookeeper_address(int member) const;
  bool is_running(int member) const;
  // Returns the member that leads; waits up to ten seconds for one. 0 if there is none.
  int Leader() const;

  // Kills the member (SIGKILL).
  void Kill(int member);
  // Stops the member (SIGSTOP), with its connections open; it is stopped when Pause returns.
  void Pause(int member);
  // Lets a paused member continue.
  void Resume(int member);
  // Starts a member again with its data, and waits until it serves.
  absl::Status Restart(int member);

 private:
  // A child process, and the thread that forked it and waits for it: the child ends with that
  // thread.
  struct Process {
    int pid = 0;
    std::thread waiter;
  };
  struct Member {
    std::string directory;
    int client_port = 0, grpc_port = 0, peer_port = 0, election_port = 0;
    Process process;
  };

  ServerFixture() = default;
  absl::Status WriteConfig(int member) const;
  absl::Status Spawn(int member);
  absl::Status WaitUntilServing(int member) const;
  const Member& at(int member) const { return members_.at(static_cast<size_t>(member - 1)); }
  Member& at(int member) { return members_.at(static_cast<size_t>(member - 1)); }

  ServerFixtureOptions options_;
  std::string directory_;
  std::vector<Member> members_;
};

}  // namespace quorate::testing
