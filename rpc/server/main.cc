// quorated CONFIG: one Quorate server in the foreground.

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/random.h"
#include "rpc/server/config.h"
#include "rpc/server/server.h"
#include "rpc/zk/door.h"
#include "rpc/zk/listener.h"

namespace {

constexpr char kUsage[] =
    "usage: quorated CONFIG\n"
    "\n"
    "Runs one Quorate server in the foreground. CONFIG is a ZooKeeper zoo.cfg; with server.N "
    "lines,\n"
    "the file myid in its dataDir says which of them this server is. The log goes to standard "
    "output.\n"
    "\n"
    "SIGTERM or SIGINT: hands leadership over to another server, if it has it, and stops cleanly.\n"
    "Exit status: 0 after a clean stop, 1 if it could not start or go on, 2 for wrong usage.\n";

class ZkDoorFactory : public quorate::rpc::DoorFactory {
 public:
  quorate::rpc::Door* Make(const quorate::rpc::Config& config,
                           quorate::rpc::Service* service) override {
    door_ = std::make_unique<quorate::rpc::zk::ZkDoor>(config, service, quorate::Clock::System(),
                                                       quorate::RandomBytes::System());
    listener_ = std::make_unique<quorate::rpc::zk::ZkListener>(door_.get());
    return door_.get();
  }
  absl::Status Open() override { return listener_->Start(); }
  void Close() override { listener_->Stop(); }

 private:
  std::unique_ptr<quorate::rpc::zk::ZkDoor> door_;
  std::unique_ptr<quorate::rpc::zk::ZkListener> listener_;
};

// Each client is a descriptor; the soft limit is often far below the hard one.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Run(const std::string& config_file) {
  auto config = quorate::rpc::LoadConfig(config_file);
  if (!config.ok()) {
    std::fprintf(stderr, "quorated: %s\n", std::string(config.status().message()).c_str());
    return 1;
  }
  ZkDoorFactory doors;
  auto server = quorate::rpc::Server::Create(*std::move(config), &doors);
  if (!server.ok()) {
    std::fprintf(stderr, "quorated: %s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  std::thread waiter([&] {
    int signal_number = 0;
    sigwait(&stop_signals, &signal_number);
    (*server)->RequestStop();
  });
  const absl::Status result = (*server)->Run();
  pthread_kill(waiter.native_handle(), SIGTERM);  // in case Run ended by itself
  waiter.join();
  if (result.ok()) return 0;
  std::fprintf(stderr, "quorated: %s\n", std::string(result.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (argc != 2) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  // Debian's Abseil has its deadlock detector on, which takes one global lock at each use inside
  // gRPC.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Signals are taken by one thread; all others are to inherit that they are blocked.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  signal(SIGPIPE, SIG_IGN);
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  spdlog::flush_on(spdlog::level::info);
  RaiseDescriptorLimit();
  return Run(argv[1]);
}
