// SPDX-License-Identifier: Apache-2.0

// quorated CONFIG: runs a Quorate server in the foreground.

#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/assertion_hook.h"
#include "base/build_version.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/seeded_bug.h"
#include "rpc/admin/admin_frontend.h"
#include "rpc/audit/request_audit.h"
#include "rpc/config/config.h"
#include "rpc/config/java_options.h"
#include "rpc/frontend/administrators.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/tree_writer.h"
#include "rpc/grpc/cipher_suites.h"
#include "rpc/grpc/frontend.h"
#include "rpc/grpc/grpc_log.h"
#include "rpc/grpc/native/stack.h"
#include "rpc/member/exit_status.h"
#include "rpc/member/fatal_error.h"
#include "rpc/member/server.h"
#include "rpc/quorated/cluster_audit.h"
#include "rpc/quorated/log_files.h"
#include "rpc/quorated/log_format.h"
#include "rpc/quorated/log_json.h"
#include "rpc/quorated/log_output.h"
#include "rpc/quorated/open_paths.h"
#include "rpc/quorated/service_manager.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/listener.h"
#include "tree/hash.h"

namespace {

constexpr char kUsage[] =
    "usage: quorated CONFIG | --version | --help\n"
    "\n"
    "Runs one Quorate server in the foreground. CONFIG is a ZooKeeper zoo.cfg; with server.N "
    "lines,\n"
    "the file myid in its dataDir says which of them this server is. The log goes to standard "
    "output.\n"
    "\n"
    "  --version   prints the version and ends\n"
    "  --help      prints this text and ends\n"
    "\n"
    "SIGTERM or SIGINT: hands leadership over to another server, if it has it, and stops cleanly.\n"
    "SIGHUP: opens the file of the log again, if it was moved, and checks CONFIG, whose changes "
    "take\n"
    "effect at the next start. SIGQUIT, SIGUSR1 and SIGUSR2 are logged and change nothing.\n"
    "Exit status: 0 after a clean stop, 2 for wrong usage or a wrong configuration, 3 for a data\n"
    "directory, 4 for an HTTP port, or 14 for the port of the members that cannot be used, 5 if "
    "the\n"
    "server was removed from the cluster, and 1 for all else.\n";

constexpr char kLogPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %l %v";

class ServerFrontends : public quorate::rpc::FrontendFactory {
 public:
  // `configuration` is the text of config.file. `audit` may be nullptr. The arguments except `config`
  // outlive the object.
  ServerFrontends(const quorate::rpc::Config& config, std::string_view configuration,
                  quorate::rpc::AuditLog* audit, quorate::rpc::ServiceManager* manager)
      : audit_(audit), manager_(manager), configuration_(configuration) {
    if (audit != nullptr) request_audit_.emplace(audit, config.sasl_any_user_id);
  }

  quorate::rpc::Frontend* Make(const quorate::rpc::Config& config, quorate::rpc::Service* service,
                               quorate::rpc::Administration* administration) override {
    service_ = service;
    const quorate::Clock* clock = quorate::Clock::System();
    quorate::RandomBytes* random = quorate::RandomBytes::System();
    quorate::rpc::RequestAudit* audit = request_audit_.has_value() ? &*request_audit_ : nullptr;
    history_.emplace(static_cast<size_t>(config.event_history_bytes));
    frontend_ =
        std::make_unique<quorate::rpc::zk::ZkFrontend>(config, service, clock, random, &*history_);
    frontend_->SetRequestAudit(audit);
    listener_ = std::make_unique<quorate::rpc::zk::ZkListener>(frontend_.get());
    std::vector<quorate::rpc::Frontends::Entry> entries{
        {frontend_.get(), quorate::rpc::kZooKeeperTags}};
    const bool has_grpc = quorate::rpc::GrpcFrontend::IsConfigured(config);
    if (config.admin_server || config.metrics_server || has_grpc) {
      administrators_.emplace(config, clock, &frontend_->statistics().administrators_refused);
    }
    if (has_grpc || config.admin_server) {
      closer_.emplace(service, quorate::rpc::kCloserTags);
      entries.push_back({&*closer_, quorate::rpc::kCloserTags});
    }
    if (config.admin_server) {
      writer_.emplace(config, service, quorate::rpc::kWriterTags);
      entries.push_back({&*writer_, quorate::rpc::kWriterTags});
    }
    if (has_grpc) {
      grpc_.emplace(config, service, administration, &*administrators_, clock);
      grpc_->SetAudit(audit_);
      grpc_->SetConnectionCounters(&frontend_->statistics().grpc_connections);
      frontend_->statistics().handshakes_failed_elsewhere = quorate::rpc::FailedGrpcHandshakes;
      native_.emplace(config, service, &*administrators_, clock, random, &*history_);
      native_->SetRequestAudit(audit);
      grpc_->SetSessionCloser(&*closer_);
      entries.push_back({native_->frontend(), quorate::rpc::kNativeTags});
    }
    if (administrators_.has_value()) {
      admin_.emplace(
          quorate::rpc::admin::AdminParts{.config = config,
                                          .frontend = frontend_.get(),
                                          .administration = administration,
                                          .administrators = &*administrators_,
                                          .clock = clock,
                                          .audit = audit_,
                                          .writer = writer_.has_value() ? &*writer_ : nullptr,
                                          .closer = closer_.has_value() ? &*closer_ : nullptr,
                                          .version = version_,
                                          .configuration_text = configuration_,
                                          .client_tls = [this] { return listener_->tls(); }});
    }
    if (has_grpc) {
      grpc_->SetMetrics([this](const std::set<std::string, std::less<>>& names) {
        return has_opened_ ? admin_->MetricsText(names) : "";
      });
    }
    frontends_.emplace(std::move(entries), &*history_, audit);
    if (audit_ != nullptr) cluster_audit_.emplace(audit_, service, administration);
    return &*frontends_;
  }
  absl::Status Open() override {
    absl::Status status = Listen();
    // A store of certificates, for example, that the configuration names.
    if (absl::IsInvalidArgument(status)) {
      status = WithExitStatus(std::move(status), quorate::rpc::ExitStatus::kConfiguration);
    }
    has_opened_ = status.ok();
    if (status.ok()) manager_->Serve(service_);
    if (status.ok() && audit_ != nullptr) quorate::rpc::RecordServerStart(true, audit_);
    return status;
  }
  // Returns whether clients were served at some time. Any thread.
  bool has_opened() const { return has_opened_; }
  void Close() override {
    manager_->Detach();
    if (admin_.has_value()) admin_->Close();
    if (grpc_.has_value()) {
      grpc_->Close();
      native_->Stop();
    }
    listener_->Stop();
  }
  void OnStatusPublished() override {
    manager_->OnNodeThread();
    if (grpc_.has_value()) grpc_->OnStatusPublished();
    if (cluster_audit_.has_value()) cluster_audit_->OnStatusPublished();
  }

 private:
  absl::Status Listen() {
    if (administrators_.has_value()) {
      if (absl::Status s = administrators_->Open(); !s.ok()) return s;
      spdlog::info("{}", administrators_->Description());
    }
    if (grpc_.has_value()) {
      native_->Start();
      if (absl::Status s = grpc_->Open(native_->services()); !s.ok()) return s;
    }
    if (absl::Status s = listener_->Start(); !s.ok()) return s;
    if (!admin_.has_value()) return absl::OkStatus();
    return WithExitStatus(admin_->Open(), quorate::rpc::ExitStatus::kAdminServer);
  }

  quorate::rpc::AuditLog* const audit_;
  quorate::rpc::ServiceManager* const manager_;
  const quorate::rpc::Service* service_ = nullptr;  // set by Make
  const std::string version_ = quorate::ProgramVersionText();
  const std::string_view configuration_;
  std::atomic<bool> has_opened_ = false;
  // Both are set only if there is an audit log.
  std::optional<quorate::rpc::RequestAudit> request_audit_;
  std::optional<quorate::rpc::ClusterAudit> cluster_audit_;
  std::optional<quorate::rpc::EventHistory> history_;
  std::unique_ptr<quorate::rpc::zk::ZkFrontend> frontend_;
  std::unique_ptr<quorate::rpc::zk::ZkListener> listener_;
  // Set if there is gRPC or HTTP.
  std::optional<quorate::rpc::Administrators> administrators_;
  std::optional<quorate::rpc::SessionCloser> closer_;
  std::optional<quorate::rpc::TreeWriter> writer_;  // with admin.enableServer
  // These are set only if there is a grpcPort or grpcUnixSocket.
  std::optional<quorate::rpc::native::NativeStack> native_;
  std::optional<quorate::rpc::GrpcFrontend> grpc_;
  std::optional<quorate::rpc::Frontends> frontends_;
  // Set if there is gRPC, which shows its metrics, or HTTP.
  std::optional<quorate::rpc::admin::AdminFrontend> admin_;
};

// Raises the soft limit of descriptors to the hard limit. Each client needs a descriptor, and the
// soft limit is often far lower.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Flushes the log. Waits only for a limited time, because the reader of the log may be blocked.
void FlushLog() {
  if (spdlog::logger* logger = spdlog::default_logger_raw()) logger->flush();
}

// The assertion hook. It is called when an assertion has failed and is about to abort the process.
void OnAssertion() {
  quorate::rpc::DoNotReportAbort();
  FlushLog();
}

// Directs the log to standard output. Threads that log do not wait for it.
// `is_json` says that each line is an object of JSON.
void StartLog(bool is_json) {
  auto output = std::make_shared<quorate::rpc::LogOutput>(STDOUT_FILENO);
  if (is_json) {
    output->SetLineFormatter(std::make_unique<quorate::rpc::JsonFormatter>());
  } else {
    output->set_pattern(kLogPattern);
  }
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", std::move(output)));
  spdlog::flush_on(spdlog::level::critical);
  quorate::rpc::TakeGrpcLog();
  quorate::SetAssertionHook(OnAssertion);
}

// Logs a warning if the limit of descriptors is low. Connections above the limit wait in the
// kernel, so that the server seems to hang for their clients.
void WarnOfDescriptorLimit() {
  constexpr rlim_t kEnough = 4096;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return;
  spdlog::warn(
      "the limit of open files is {} (ulimit -n), of which each client takes one; raise it to {} "
      "or more",
      limit.rlim_cur, kEnough);
}

// The signal by which this process tells its thread for signals to end. No other process sends it.
int EndSignal() { return SIGRTMIN; }

// Returns all signals that this program handles. One thread waits for them.
sigset_t HandledSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, EndSignal()}) {
    sigaddset(&set, number);
  }
  return set;
}

// Returns whether `path` can be read once only. A second reading of a pipe finds nothing, or blocks until
// somebody writes into it.
bool IsPipe(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

// Handles SIGHUP. Reopens the logs, because log rotation may have moved their files away, and checks
// CONFIG, because an operator may have edited it.
// `audit` may be nullptr.
void Reload(const std::string& config_file, quorate::rpc::LogFiles* log_files,
            quorate::rpc::AuditLog* audit) {
  if (audit != nullptr) audit->Reopen();
  spdlog::default_logger()->flush();
  const absl::Status reopened = log_files->Reopen();
  if (!reopened.ok()) {
    spdlog::error("SIGHUP: {}; the log is still written to the file before",
                  std::string(reopened.message()));
  }
  if (IsPipe(config_file)) {
    spdlog::info("SIGHUP: {} is no regular file, and is not read again", config_file);
    return;
  }
  const auto config = quorate::rpc::LoadConfig(config_file);
  if (config.ok()) {
    spdlog::info("SIGHUP: {} is valid; its changes take effect at the next start", config_file);
  } else {
    spdlog::error("SIGHUP: the next start will fail: {}", std::string(config.status().message()));
  }
}

// Returns when SIGTERM or SIGINT was received, or EndSignal; whether it was not the latter. `audit`
// may be nullptr. Handles the other signals in the meantime.
bool WaitForStopSignal(const std::string& config_file, quorate::rpc::LogFiles* log_files,
                       quorate::rpc::AuditLog* audit) {
  const sigset_t signals = HandledSignals();
  for (int number = 0;;) {
    sigwait(&signals, &number);
    if (number == EndSignal()) return false;
    if (number == SIGTERM || number == SIGINT) return true;
    if (number == SIGHUP) {
      Reload(config_file, log_files, audit);
    } else {
      spdlog::info("signal {} ({}) has no effect; SIGTERM stops the server", number,
                   strsignal(number));
    }
  }
}

// Waits for the signals of the process on a thread of its own, and stops the server on SIGTERM and
// SIGINT, at any time of its life.
class SignalWaiter {
 public:
  // `wait` returns whether the server shall stop (WaitForStopSignal), and `on_stop` is called on the
  // thread before a server that runs is stopped.
  SignalWaiter(std::function<bool()> wait, std::function<void()> on_stop)
      : wait_(std::move(wait)), on_stop_(std::move(on_stop)), thread_([this] { Wait(); }) {}
  ~SignalWaiter() { End(); }
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // From now on `server` is stopped, and not the process. It must outlive the call of End.
  void SetServer(quorate::rpc::Server* server) {
    quorate::MutexLock lock(&mutex_);
    server_ = server;
  }

  // Ends the thread. Returns whether a signal has asked for a stop. A later one stays pending, also
  // for a program that this process executes.
  bool End() {
    if (thread_.joinable()) {
      {
        quorate::MutexLock lock(&mutex_);
        is_ended_ = true;
      }
      // The signal is blocked and the thread waits for it, so that it ends the wait, not the process.
      // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
      pthread_kill(thread_.native_handle(), EndSignal());
      thread_.join();
    }
    return is_stopped_;
  }

 private:
  void Wait() {
    if (!wait_()) return;
    is_stopped_ = true;
    quorate::MutexLock lock(&mutex_);
    if (is_ended_) return;
    if (server_ == nullptr) {
      // Nobody is served yet, and what is being read is as safe as in a crash.
      spdlog::info("stopped while the data was read");
      FlushLog();
      std::_Exit(static_cast<int>(quorate::rpc::ExitStatus::kOk));
    }
    on_stop_();
    server_->RequestStop();
  }

  const std::function<bool()> wait_;
  const std::function<void()> on_stop_;
  std::atomic<bool> is_stopped_ = false;
  quorate::Mutex mutex_;
  quorate::rpc::Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool is_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last, as it uses the others
};

// Runs the server with the configuration `text`, the contents of `config_file`, or reports why it could
// not be read. Returns Aborted if a new process has to run the server again.
absl::Status Run(const std::string& config_file, const absl::StatusOr<std::string>& text) {
  quorate::rpc::LogFiles log_files;
  spdlog::info("quorated version={} pid={}", quorate::ProgramVersionText(), getpid());
  WarnOfDescriptorLimit();
  auto config = text.ok() ? quorate::rpc::LoadConfig(config_file, *text)
                          : absl::StatusOr<quorate::rpc::Config>(text.status());
  absl::Status usable = config.status();
  if (usable.ok()) usable = quorate::rpc::SetGrpcCipherSuites(*config);
  if (!usable.ok()) {
    return WithExitStatus(std::move(usable), quorate::rpc::ExitStatus::kConfiguration);
  }
  quorate::rpc::WarnOfOpenPaths(*config, *text);
  auto audit = quorate::rpc::OpenAuditLog(*config);
  if (!audit.ok()) return audit.status();
  quorate::rpc::AuditLog* const audit_log = audit->get();
  quorate::rpc::ServiceManager manager;
  manager.Start();
  ServerFrontends frontends(*config, *text, audit_log, &manager);
  SignalWaiter waiter([&] { return WaitForStopSignal(config_file, &log_files, audit_log); },
                      [&] {
                        manager.Stop();
                        if (audit_log != nullptr && frontends.has_opened()) {
                          quorate::rpc::RecordServerStop(audit_log);
                        }
                      });
  auto server = quorate::rpc::Server::Create(*std::move(config), &frontends);
  if (server.ok()) waiter.SetServer(server->get());
  const absl::Status result = server.ok() ? (*server)->Run() : server.status();
  if (!frontends.has_opened() && audit_log != nullptr) {
    quorate::rpc::RecordServerStart(false, audit_log);
  }
  // A server that ended by itself may execute itself again, unless it was asked to stop meanwhile. It
  // has not told the manager that it stops, because the manager would then kill the new server after
  // its time limit for stops.
  const bool is_stopped = waiter.End();
  return is_stopped && absl::IsAborted(result) ? absl::OkStatus() : result;
}

// Executes this program again in the same process, with the same process id, so that a supervisor
// does not notice it. Returns only if that fails. In the archive that brings its own libraries, the
// running program is the loader of these (deploy/archive/launcher), and the launcher is executed.
absl::Status StartAgain(char** argv) {
  if (IsPipe(argv[1])) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server has to start again, and its configuration, ", argv[1],
                     ", is no regular file that could be read once more; start the server"));
  }
  FlushLog();
  const char* launcher = std::getenv("QUORATE_LAUNCHER");
  execv(launcher != nullptr && *launcher != '\0' ? launcher : "/proc/self/exe", argv);
  return absl::ErrnoToStatus(errno, "the server ends, and could not start itself again");
}

// Makes the Kerberos library read the configuration that users of ZooKeeper name by a property of
// Java. REQUIRES: no other thread runs.
void UseJavaKerberosConfig() {
  const auto file = quorate::rpc::JavaPropertyOfEnvironment("java.security.krb5.conf");
  if (file.has_value()) setenv("KRB5_CONFIG", file->c_str(), /*overwrite=*/1);
}

// Returns the bug that a build with seeded bugs switches on, or nullptr if there is none. With it,
// tests with real servers show that they find the bug.
const char* SeededBugOfEnvironment() {
  return quorate::kBugsAreSeeded ? std::getenv("QUORATE_SEEDED_BUG") : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("quorated %s\n", quorate::ProgramVersionText().c_str());
    return 0;
  }
  if (argc != 2) {
    std::fputs(kUsage, stderr);
    return static_cast<int>(quorate::rpc::ExitStatus::kConfiguration);
  }
  // All files are their owner's alone, also those that libraries make: they have the data that access
  // control lists protect.
  umask(S_IRWXG | S_IRWXO);
  // Debian's Abseil has its deadlock detector switched on, which takes one global lock at each use
  // of a mutex in gRPC.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Returns large blocks to the system as soon as they are free. By default, malloc raises this
  // threshold after the first large block, and then keeps blocks of up to 32 MiB in the arena of
  // each thread.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 8 << 20);
  // One thread waits for signals. They are blocked here, before the other threads start, which
  // inherit the mask.
  const sigset_t blocked = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  signal(SIGPIPE, SIG_IGN);
  UseJavaKerberosConfig();
  if (const char* fault = SeededBugOfEnvironment()) quorate::SeedBug(fault);
  spdlog::set_pattern(kLogPattern);
  quorate::rpc::ReportUnhandledSystemErrors();
  // The file is read once: it may be a pipe.
  const absl::StatusOr<std::string> configuration = quorate::rpc::ReadConfigFile(argv[1]);
  StartLog(configuration.ok() && quorate::rpc::WantsJsonLog(*configuration));
  RaiseDescriptorLimit();
  quorate::tree::SetTableKey(quorate::RandomBytes::System()->Make(quorate::tree::TableKey::kBytes));
  absl::Status result = Run(argv[1], configuration);
  if (absl::IsAborted(result)) {
    spdlog::warn("starting again: {}", std::string(result.message()));
    result = StartAgain(argv);
  }
  const auto exit_status = quorate::rpc::ExitStatusOf(result);
  if (exit_status == quorate::rpc::ExitStatus::kRemoved) {
    spdlog::warn("the server ends, because it was removed from the cluster: {}",
                 std::string(result.message()));
  }
  FlushLog();
  if (!result.ok() && exit_status != quorate::rpc::ExitStatus::kRemoved) {
    quorate::rpc::ReportFatal(std::string(result.message()));
  }
  return static_cast<int>(exit_status);
}
