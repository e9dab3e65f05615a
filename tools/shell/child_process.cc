// SPDX-License-Identifier: Apache-2.0

#include "tools/shell/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::tools::shell {
namespace {

constexpr std::array<int, 8> kWatched = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                         SIGUSR1, SIGUSR2, SIGCHLD, SIGWINCH};

// Returns whether the signal is ignored, as the parent may have set it (nohup; `&` in a script).
bool IsIgnored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t WatchedSet() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kWatched) {
    if (!IsIgnored(signal)) sigaddset(&set, signal);
  }
  return set;
}

// Runs in the child, between fork and exec. Makes only async-signal-safe calls.
[[noreturn]] void BecomeProgram(char* const* arguments, char** environment, int error_file,
                                bool takes_terminal, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent has ended already
  setpgid(0, 0);
  if (takes_terminal) tcsetpgrp(STDIN_FILENO, getpid());
  std::signal(SIGTTOU, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  environ = environment;
  execvp(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_file, &error, sizeof error);
  _exit(127);
}

std::vector<std::string> Environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool is_replaced = false;
    for (const auto& [name, value] : added) is_replaced |= text.starts_with(name + "=");
    if (!is_replaced) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(absl::StrCat(name, "=", value));
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

WatchedSignals::WatchedSignals() {
  std::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD is ignored, the end of a child is not reported
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGTTOU, SIG_IGN);
  const sigset_t set = WatchedSet();
  ASSERT(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  file_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  ASSERT(file_ >= 0);
}

WatchedSignals::~WatchedSignals() { close(file_); }

std::optional<int> WatchedSignals::Take() {
  signalfd_siginfo info;
  if (read(file_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

bool WatchedSignals::IsEnd(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

absl::StatusOr<ChildProcess> ChildProcess::Start(
    const std::vector<std::string>& command,
    const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = Environment(environment);
  const std::vector<char*> argument_pointers = Pointers(arguments);
  std::vector<char*> variable_pointers = Pointers(variables);
  // Closed by exec; if exec fails, the child writes the error into it.
  std::array<int, 2> error_files{};
  if (pipe2(error_files.data(), O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no pipe: ", std::strerror(errno)));
  }
  const bool takes_terminal = isatty(STDIN_FILENO) != 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    BecomeProgram(argument_pointers.data(), variable_pointers.data(), error_files[1],
                  takes_terminal, parent);
  }
  const int fork_error = errno;
  close(error_files[1]);
  int error = pid < 0 ? fork_error : 0;
  if (pid > 0) {
    setpgid(pid, pid);  // both parent and child call it; the first call counts
    while (read(error_files[0], &error, sizeof error) < 0 && errno == EINTR) {
    }
  }
  close(error_files[0]);
  ChildProcess child(pid > 0 ? pid : 0, takes_terminal);
  if (error == 0) return child;
  return absl::Status(absl::ErrnoToStatusCode(error),
                      absl::StrCat(command.front(), ": ", std::strerror(error)));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      has_terminal_(std::exchange(other.has_terminal_, false)) {}

ChildProcess::~ChildProcess() {
  if (pid_ != 0) {
    Signal(SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  TakeTerminalBack();
}

void ChildProcess::TakeTerminalBack() {
  if (!std::exchange(has_terminal_, false)) return;
  tcsetpgrp(STDIN_FILENO, getpgrp());
}

void ChildProcess::Signal(int signal) const {
  if (pid_ == 0) return;
  // Continues the group, because a stopped program would not handle the signal.
  kill(-pid_, signal);
  if (signal == SIGTERM || signal == SIGHUP) kill(-pid_, SIGCONT);
}

std::optional<int> ChildProcess::Poll() {
  ASSERT(pid_ != 0);
  int status = 0;
  siginfo_t stopped{};
  if (has_terminal_ && waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED | WNOHANG) == 0 &&
      stopped.si_pid != 0) {
    kill(-pid_, SIGCONT);
  }
  // Keeps the zombie for now, so that its number, which is also that of the group, is not reused
  // yet.
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  TakeTerminalBack();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int ExitStatusOfStart(const absl::Status& status) { return absl::IsNotFound(status) ? 127 : 126; }

}  // namespace quorate::tools::shell
