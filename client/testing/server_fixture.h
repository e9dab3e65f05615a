// Real servers for tests: one alone or a small cluster, as child processes in a temporary directory
// and on free ports. They end with the fixture, and with the program.
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
  // The quorated program; empty: $QUORATED, and then the one that Bazel made for this test.
  std::string program{};
  // Lines that go into each configuration, "key=value".
  std::vector<std::string> settings{};
};

class ServerFixture {
 public:
  // Waits until all members serve.
  static absl::StatusOr<std::unique_ptr<ServerFixture>> Start(ServerFixtureOptions options = {});
  ~ServerFixture();
  ServerFixture(const ServerFixture&) = delete;
  ServerFixture& operator=(const ServerFixture&) = delete;

  // For ClientOptions::servers.
  std::string servers() const;

  // Members are numbered from 1.
  int members() const { return static_cast<int>(members_.size()); }
  std::string address(int member) const;
  // host:port of its ZooKeeper front end.
  std::string zookeeper_address(int member) const;
  bool is_running(int member) const;
  // The member that leads; waits up to ten seconds for one, and is 0 if there is none.
  int Leader() const;

  // At once, without a word to anybody.
  void Kill(int member);
  // Lets it hang, with its connections open, from the return on; and go on.
  void Pause(int member);
  void Resume(int member);
  // Starts it again with its data, and waits until it serves.
  absl::Status Restart(int member);

 private:
  // A child, and the thread that waits for it: the child ends when that does.
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
