// SPDX-License-Identifier: Apache-2.0

#include "client/testing/server_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <set>
#include <utility>

#include "rpc/proto/quorate/v1/cluster.grpc.pb.h"

namespace quorate::testing {
namespace {

using std::chrono::milliseconds;

constexpr char kHost[] = "127.0.0.1";
constexpr milliseconds kServingTimeout{20'000};
constexpr milliseconds kLeaderTimeout{10'000};
constexpr milliseconds kPollPeriod{5};
constexpr milliseconds kStatusTimeout{1000};

bool IsFree(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, kHost, &address.sin_addr);
  const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return is_free;
}

// Returns a free port below the range that the system uses for outgoing connections, one of which
// could otherwise take the port of a member that is down for a moment. Never returns a port twice,
// because a port looks free until a server listens on it.
int FreePort() {
  static std::mt19937 random(std::random_device{}());
  static std::set<int> given;
  for (;;) {
    const int port = std::uniform_int_distribution<int>(12'000, 32'000)(random);
    if (IsFree(port) && given.insert(port).second) return port;
  }
}

std::string ProgramOf(const ServerFixtureOptions& options) {
  if (!options.program.empty()) return options.program;
  if (const char* program = std::getenv("QUORATED")) return program;
  return "rpc/quorated/quorated";
}

// Runs in the child, and makes only calls that are allowed between fork and exec.
[[noreturn]] void Exec(const char* program, const char* config, int log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execl(program, program, config, static_cast<char*>(nullptr));
  _exit(127);
}

absl::StatusOr<v1::StatusResponse> StatusOf(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = v1::ClusterService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kStatusTimeout);
  v1::StatusResponse response;
  const grpc::Status status = stub->Status(&context, {}, &response);
  if (!status.ok()) return absl::UnavailableError(status.error_message());
  return response;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerFixture>> ServerFixture::Start(ServerFixtureOptions options) {
  std::unique_ptr<ServerFixture> servers(new ServerFixture());
  options.program = std::filesystem::absolute(ProgramOf(options));
  if (access(options.program.c_str(), X_OK) != 0) {
    return absl::NotFoundError("no program " + options.program +
                               ": build //rpc/quorated, and set QUORATED to its path");
  }
  const char* parent = std::getenv("TEST_TMPDIR");
  servers->directory_ = std::string(parent == nullptr ? "/tmp" : parent) + "/quorate-XXXXXX";
  if (mkdtemp(servers->directory_.data()) == nullptr) {
    return absl::InternalError(servers->directory_ + ": " + std::strerror(errno));
  }
  servers->options_ = std::move(options);
  for (int i = 1; i <= servers->options_.members; ++i) {
    Member& member = servers->members_.emplace_back();
    member.directory = servers->directory_ + "/" + std::to_string(i);
    for (int* port :
         {&member.client_port, &member.grpc_port, &member.peer_port, &member.election_port}) {
      *port = FreePort();
    }
  }
  for (int i = 1; i <= servers->members(); ++i) {
    if (absl::Status s = servers->WriteConfig(i); !s.ok()) return s;
    if (absl::Status s = servers->Spawn(i); !s.ok()) return s;
  }
  for (int i = 1; i <= servers->members(); ++i) {
    if (absl::Status s = servers->WaitUntilServing(i); !s.ok()) return s;
  }
  return servers;
}

ServerFixture::~ServerFixture() {
  for (int i = 1; i <= members(); ++i) Kill(i);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string ServerFixture::address(int member) const {
  return std::string(kHost) + ":" + std::to_string(at(member).grpc_port);
}

std::string ServerFixture::zookeeper_address(int member) const {
  return std::string(kHost) + ":" + std::to_string(at(member).client_port);
}

std::string ServerFixture::servers() const {
  std::string all;
  for (int i = 1; i <= members(); ++i) all += (i == 1 ? "" : ",") + address(i);
  return all;
}

bool ServerFixture::is_running(int member) const { return at(member).process.pid != 0; }

absl::Status ServerFixture::WriteConfig(int member) const {
  const std::string& directory = at(member).directory;
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/myid") << member << "\n";
  std::ofstream config(directory + "/zoo.cfg");
  config << "dataDir=" << directory << "\nclientPortAddress=" << kHost
         << "\nclientPort=" << at(member).client_port << "\ngrpcPort=" << at(member).grpc_port
         << "\ntickTime=2000\ninitLimit=10\nsyncLimit=5\nadmin.enableServer=false\n";
  if (members() > 1) {
    for (int i = 1; i <= members(); ++i) {
      config << "server." << i << "=" << kHost << ":" << at(i).peer_port << ":"
             << at(i).election_port << "\n";
    }
  }
  for (const std::string& line : options_.settings) config << line << "\n";
  config.close();
  return config ? absl::OkStatus() : absl::InternalError(directory + ": cannot write zoo.cfg");
}

absl::Status ServerFixture::Spawn(int member) {
  const std::string config = at(member).directory + "/zoo.cfg";
  const std::string log_path = at(member).directory + "/server.log";
  const int log = open(log_path.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0644);
  if (log < 0) return absl::InternalError(log_path + ": " + std::strerror(errno));
  std::promise<int> started;
  Process& process = at(member).process;
  process.waiter = std::thread([this, &started, config, log] {
    const int pid = fork();
    if (pid == 0) Exec(options_.program.c_str(), config.c_str(), log);
    started.set_value(pid);
    if (pid > 0) waitpid(pid, nullptr, 0);
  });
  process.pid = started.get_future().get();
  close(log);
  if (process.pid > 0) return absl::OkStatus();
  process.waiter.join();
  process.pid = 0;
  return absl::InternalError("fork failed");
}

absl::Status ServerFixture::WaitUntilServing(int member) const {
  const auto end = std::chrono::steady_clock::now() + kServingTimeout;
  for (;;) {
    const absl::StatusOr<v1::StatusResponse> status = StatusOf(address(member));
    if (status.ok() && status->serving()) return absl::OkStatus();
    if (std::chrono::steady_clock::now() > end) break;
    std::this_thread::sleep_for(kPollPeriod);
  }
  std::ifstream log(at(member).directory + "/server.log");
  const std::string text((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
  return absl::DeadlineExceededError("member " + std::to_string(member) +
                                     " does not serve. Its log:\n" + text);
}

int ServerFixture::Leader() const {
  const auto end = std::chrono::steady_clock::now() + kLeaderTimeout;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 1; i <= members(); ++i) {
      if (!is_running(i)) continue;
      const absl::StatusOr<v1::StatusResponse> status = StatusOf(address(i));
      if (status.ok() && status->serving() && status->role() == v1::ROLE_LEADER) return i;
    }
    // The only member leads, even if it reports another role.
    if (members() == 1 && is_running(1)) return 1;
    std::this_thread::sleep_for(kPollPeriod);
  }
  return 0;
}

void ServerFixture::Kill(int member) {
  Process& process = at(member).process;
  if (process.pid == 0) return;
  kill(process.pid, SIGKILL);
  process.waiter.join();
  process.pid = 0;
}

void ServerFixture::Pause(int member) {
  const int pid = at(member).process.pid;
  kill(pid, SIGSTOP);
  // The threads of the process stop one after another: wait for all of them. WNOWAIT leaves the
  // state change for the waiter thread.
  siginfo_t stopped{};
  waitid(P_PID, static_cast<id_t>(pid), &stopped, WSTOPPED | WNOWAIT);
}
void ServerFixture::Resume(int member) { kill(at(member).process.pid, SIGCONT); }

absl::Status ServerFixture::Restart(int member) {
  Kill(member);
  if (absl::Status s = Spawn(member); !s.ok()) return s;
  return WaitUntilServing(member);
}

}  // namespace quorate::testing
