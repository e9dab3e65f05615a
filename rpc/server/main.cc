// quorated CONFIG: one Quorate server in the foreground.

#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/planted_fault.h"
#include "base/random.h"
#include "rpc/grpc/door.h"
#include "rpc/grpc/native/entrance.h"
#include "rpc/server/config.h"
#include "rpc/server/doors.h"
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

class ServerDoors : public quorate::rpc::DoorFactory {
 public:
  quorate::rpc::Door* Make(const quorate::rpc::Config& config, quorate::rpc::Service* service,
                           quorate::rpc::Administration* administration) override {
    const quorate::Clock* clock = quorate::Clock::System();
    quorate::RandomBytes* random = quorate::RandomBytes::System();
    door_ = std::make_unique<quorate::rpc::zk::ZkDoor>(config, service, clock, random);
    listener_ = std::make_unique<quorate::rpc::zk::ZkListener>(door_.get());
    if (config.grpc_port == 0) return door_.get();
    grpc_.emplace(config, service, administration, clock);
    native_.emplace(config, service, clock, random);
    both_.emplace(std::vector<quorate::rpc::Doors::Entry>{
        {door_.get(), quorate::rpc::kZooKeeperTags}, {native_->door(), quorate::rpc::kNativeTags}});
    return &*both_;
  }
  absl::Status Open() override {
    if (grpc_.has_value()) {
      native_->Start();
      if (absl::Status s = grpc_->Open(native_->services()); !s.ok()) return s;
    }
    return listener_->Start();
  }
  void Close() override {
    if (grpc_.has_value()) {
      grpc_->Close();
      native_->Stop();
    }
    listener_->Stop();
  }
  void OnStatusPublished() override {
    if (grpc_.has_value()) grpc_->OnStatusPublished();
  }

 private:
  std::unique_ptr<quorate::rpc::zk::ZkDoor> door_;
  std::unique_ptr<quorate::rpc::zk::ZkListener> listener_;
  // These only with a grpcPort.
  std::optional<quorate::rpc::native::NativeEntrance> native_;
  std::optional<quorate::rpc::Doors> both_;
  std::optional<quorate::rpc::GrpcDoor> grpc_;
};

// Each client is a descriptor; the soft limit is often far below the hard one.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Aborted: it is to be run again, by a new process.
absl::Status Run(const std::string& config_file) {
  auto config = quorate::rpc::LoadConfig(config_file);
  if (!config.ok()) return config.status();
  ServerDoors doors;
  auto server = quorate::rpc::Server::Create(*std::move(config), &doors);
  if (!server.ok()) return server.status();
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
  return result;
}

// Becomes a new process of the same program under the same id, so that who started it need not
// know. Returns only if that fails.
absl::Status StartAgain(char** argv) {
  spdlog::default_logger()->flush();
  execv("/proc/self/exe", argv);
  return absl::ErrnoToStatus(errno, "the server ends, and could not start itself again");
}

// The mistake that a planted build is to make, so that tests with real servers can show that they
// find it.
const char* PlantedFaultOfEnvironment() {
  return quorate::kFaultsArePlanted ? std::getenv("QUORATE_PLANTED_FAULT") : nullptr;
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
  // Large blocks go back to the system as soon as they are free. By itself malloc would after the
  // first of them keep those up to 32 MiB too, in the arena of each thread.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 8 << 20);
  // Signals are taken by one thread; all others are to inherit that they are blocked.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  signal(SIGPIPE, SIG_IGN);
  if (const char* fault = PlantedFaultOfEnvironment()) quorate::PlantFault(fault);
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  spdlog::flush_on(spdlog::level::info);
  RaiseDescriptorLimit();
  absl::Status result = Run(argv[1]);
  if (absl::IsAborted(result)) {
    spdlog::warn("starting again: {}", std::string(result.message()));
    result = StartAgain(argv);
  }
  if (result.ok()) return 0;
  std::fprintf(stderr, "quorated: %s\n", std::string(result.message()).c_str());
  return 1;
}
