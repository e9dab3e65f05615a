// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "rpc/frontend/testing/fake_service.h"

namespace quorate::rpc {
namespace {

// Stands for systemd: has the socket that NOTIFY_SOCKET names.
class Manager {
 public:
  // `watchdog_us`: the value of WATCHDOG_USEC; nullptr: the server has no watchdog.
  explicit Manager(const char* watchdog_us) {
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT(socket_ >= 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // Binding to no name gives the socket an abstract one that is free.
    ASSERT(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) == 0);
    socklen_t size = sizeof(address);
    ASSERT(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const size_t name_bytes = size - offsetof(sockaddr_un, sun_path) - 1;
    setenv("NOTIFY_SOCKET", ("@" + std::string(address.sun_path + 1, name_bytes)).c_str(), 1);
    if (watchdog_us != nullptr) setenv("WATCHDOG_USEC", watchdog_us, 1);
  }
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(socket_);
  }
  // Returns the next message that was sent; empty if there is none.
  std::string Received() {
    std::array<char, 1024> bytes;
    const ssize_t size = recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    return size < 0 ? "" : std::string(bytes.data(), static_cast<size_t>(size));
  }

 private:
  int socket_ = -1;
};

ServerStatus Serving() {
  ServerStatus status;
  status.leader_known = status.in_touch = status.caught_up = true;
  return status;
}

TEST_CASE("a server is ready when it serves, and says when it stops") {
  Manager manager(nullptr);
  ServiceManager reporter;
  FakeService service;
  service.current = Serving();
  reporter.Report();
  CHECK(manager.Received() == "STATUS=loading the data\n");
  reporter.Serve(&service);
  CHECK(manager.Received() == "READY=1\nSTATUS=serving as follower\n");
  reporter.Stop();
  CHECK(manager.Received() == "STOPPING=1\nSTATUS=stopping\n");
  reporter.Report();
  CHECK(manager.Received().empty());
}

TEST_CASE("the status line is sent when it changes") {
  Manager manager(nullptr);
  ServiceManager reporter;
  FakeService service;
  service.current = Serving();
  reporter.Serve(&service);
  manager.Received();
  reporter.Report();
  CHECK(manager.Received().empty());
  service.current.is_leader = true;
  service.current.voters = 3;
  service.current.followers_in_sync = 1;
  reporter.Report();
  CHECK(manager.Received() == "STATUS=serving as leader of 3 voters, 1 of the others up to date\n");
}

TEST_CASE("the watchdog is not fed while the node thread is stuck") {
  Manager manager("6000000");
  ServiceManager reporter;
  FakeService service;
  service.current = Serving();
  reporter.Serve(&service);
  manager.Received();
  reporter.OnNodeThread();
  reporter.Report();
  CHECK(manager.Received() == "WATCHDOG=1\n");
  reporter.Report();
  CHECK(manager.Received().empty());
  reporter.OnNodeThread();
  reporter.Report();
  CHECK(manager.Received() == "WATCHDOG=1\n");
}

TEST_CASE("the watchdog is fed while the server loads its data and while it stops") {
  Manager manager("6000000");
  ServiceManager reporter;
  FakeService service;
  reporter.Report();
  CHECK(manager.Received() == "WATCHDOG=1\nSTATUS=loading the data\n");
  reporter.Report();
  CHECK(manager.Received() == "WATCHDOG=1\n");
  reporter.Serve(&service);
  manager.Received();
  reporter.Stop();
  CHECK(manager.Received() == "STOPPING=1\nWATCHDOG=1\nSTATUS=stopping\n");
  reporter.Detach();
  reporter.Report();
  CHECK(manager.Received() == "WATCHDOG=1\n");
}

TEST_CASE("a server that ends by itself does not say that it stops") {
  Manager manager("6000000");
  ServiceManager reporter;
  FakeService service;
  service.current = Serving();
  reporter.Serve(&service);
  manager.Received();
  reporter.Detach();
  reporter.Report();
  CHECK(manager.Received() == "WATCHDOG=1\nSTATUS=loading the data\n");
  reporter.Serve(&service);
  CHECK(manager.Received() == "READY=1\nSTATUS=serving as follower\n");
}

TEST_CASE("a server that is asked to stop before it serves says that it stops") {
  Manager manager(nullptr);
  ServiceManager reporter;
  reporter.Detach();
  reporter.Stop();
  CHECK(manager.Received() == "STOPPING=1\nSTATUS=stopping\n");
}

TEST_CASE("a server that was asked to stop while it loaded does not say that it is ready") {
  Manager manager(nullptr);
  ServiceManager reporter;
  FakeService service;
  service.current = Serving();
  reporter.Stop();
  CHECK(manager.Received() == "STOPPING=1\nSTATUS=stopping\n");
  reporter.Serve(&service);
  reporter.Detach();
  reporter.Report();
  const std::string received = manager.Received();
  CHECK(received.find("READY") == std::string::npos);
  CHECK(received.find("loading") == std::string::npos);
}

TEST_CASE("the watchdog of another process is not fed") {
  Manager manager("6000000");
  setenv("WATCHDOG_PID", "1", 1);
  ServiceManager reporter;
  unsetenv("WATCHDOG_PID");
  reporter.Report();
  CHECK(manager.Received() == "STATUS=loading the data\n");
}

TEST_CASE("a manager that hangs does not stop the server, and gets the report later") {
  Manager manager("6000000");
  ServiceManager reporter;
  FakeService service;
  service.current = Serving();
  // More than the socket of a manager takes.
  for (int i = 0; i < 10'000; ++i) reporter.Report();
  reporter.Serve(&service);
  std::string received;
  while (!(received = manager.Received()).empty())
    CHECK(received.find("READY") == std::string::npos);
  reporter.Report();
  CHECK(manager.Received() == "READY=1\nSTATUS=serving as follower\n");
}

TEST_CASE("three reports fit into the time of the watchdog") {
  {
    Manager manager("600000");
    CHECK(ServiceManager().interval() == std::chrono::milliseconds(200));
  }
  Manager manager("60000000");
  CHECK(ServiceManager().interval() == std::chrono::milliseconds(1000));
}

TEST_CASE("the thread reports without being called") {
  Manager manager(nullptr);
  ServiceManager reporter;
  reporter.Start();
  // The first report is made before Start returns.
  CHECK(manager.Received() == "STATUS=loading the data\n");
}

TEST_CASE("a server without a manager reports nothing and needs no socket") {
  ServiceManager reporter;
  FakeService service;
  reporter.Start();
  reporter.Serve(&service);
  reporter.Report();
  reporter.Stop();
  reporter.Detach();
  CHECK(std::getenv("NOTIFY_SOCKET") == nullptr);
}

TEST_CASE("the status line says why a server does not serve") {
  ServerStatus status;
  CHECK(StatusLine(status) ==
        "not serving: there is no leader; the end of the log says what this server waits for");
  status.leader_known = true;
  CHECK(StatusLine(status) == "not serving: catching up with the leader");
  status = Serving();
  status.standalone = true;
  CHECK(StatusLine(status) == "serving alone");
}

}  // namespace
}  // namespace quorate::rpc
