// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/fatal_error.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::rpc {
namespace {

struct Advice {
  int reason;  // a number of errno
  // If a message contains this text, it already has the advice.
  const char* given;
  const char* text;
};

// If a message contains several of these errors, the first one in this table counts.
constexpr Advice kAdvice[] = {
    {EADDRINUSE, "ss -ltnp",
     "another process listens there (`ss -ltnp` shows which): stop it, or configure another port"},
    {EADDRNOTAVAIL, "ip address",
     "this machine does not have that address (`ip address` shows those it has): correct it in the "
     "configuration"},
    {EMFILE, "ulimit -n",
     "raise the limit of open files (ulimit -n, or LimitNOFILE= in the systemd unit)"},
    {ENFILE, "fs.file-max",
     "the whole machine has too many open files: close some, or raise fs.file-max (sysctl)"},
    {ENOSPC, "ree some space", "free some space on that disk, and start the server again"},
    {EDQUOT, "ree some space",
     "free some space within the quota of that disk, and start the server again"},
    {EROFS, "writable",
     "make that file system writable; Linux mounts it read-only after an error of the disk, which "
     "the kernel's log (dmesg) tells of"},
    {EIO, "dmesg",
     "the disk or its file system has failed: read the kernel's log (dmesg), and repair or replace "
     "it before the server is started again"},
    {ENOLCK, "flock",
     "that file system cannot lock files (flock), as some network file systems: use a local disk"},
    {ENOMEM, "memory of",
     "raise the memory of the machine or of the container, or stop other programs"},
};
constexpr char kThreadAdvice[] =
    "raise the limit of processes and threads (ulimit -u, TasksMax= in the systemd unit, pids.max "
    "of the container)";
constexpr char kPermissionAdvice[] =
    "run the server as the user that owns its files, or give this user the permission to read and "
    "write them";
constexpr char kPortPermissionAdvice[] =
    "ports below 1024 need the capability CAP_NET_BIND_SERVICE: grant it, or configure another "
    "port";

bool Says(const std::string& message, int reason) {
  return absl::StrContains(message, std::strerror(reason));
}

// Returns the text of an exception by which the system reports an error or a lack of memory, and an
// empty string for any other exception.
std::string SystemErrorText(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::system_error& error) {
    // what() of an exception of std::thread does not say that a thread could not be started.
    if (error.code() != std::errc::resource_unavailable_try_again) return error.what();
    return absl::StrCat("a thread cannot be started: ", error.what(), "; ", kThreadAdvice);
  } catch (const boost::system::system_error& error) {
    return error.what();
  } catch (const std::bad_alloc&) {
    return absl::StrCat("no memory is left: ", std::strerror(ENOMEM));
  } catch (...) {
    return "";
  }
}

void LogAndPrint(const std::string& message) {
  spdlog::critical("{}", message);
  if (spdlog::logger* logger = spdlog::default_logger_raw()) logger->flush();
  struct stat out {
  }, error{};
  const bool same = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &error) == 0 &&
                    out.st_dev == error.st_dev && out.st_ino == error.st_ino;
  if (!same) std::fprintf(stderr, "quorated: %s\n", message.c_str());
}

// The message of the ReportedAborts object; null: there is none.
const std::string* abort_message = nullptr;
std::atomic_flag abort_is_reported;

// Handles SIGABRT. abort() raises the signal on the thread that calls it, so this handler may lock
// and allocate, unlike those of other signals.
[[noreturn]] void OnAbort(int /*signal*/) {
  if (abort_is_reported.test_and_set()) {
    // Leaves another thread that reports its abort the time to do so. If this thread itself has
    // aborted while it reported an abort, the process ends without the report.
    sleep(1);
  } else {
    LogAndPrint(*abort_message);
  }
  std::_Exit(1);
}

[[noreturn]] void OnTerminate() {
  DoNotReportAbort();
  const std::exception_ptr exception = std::current_exception();
  const std::string text = exception ? SystemErrorText(exception) : "";
  if (text.empty()) std::abort();
  LogAndPrint(WithAdvice(absl::StrCat("the server ends: ", text)));
  std::_Exit(1);
}

}  // namespace

std::string WithAdvice(std::string message) {
  const auto with = [&message](const char* advice) { return absl::StrCat(message, "; ", advice); };
  for (const Advice& advice : kAdvice) {
    if (!Says(message, advice.reason)) continue;
    return absl::StrContains(message, advice.given) ? message : with(advice.text);
  }
  const bool has_user = absl::StrContains(message, "running as user");
  if (!has_user && (Says(message, EACCES) || Says(message, EPERM))) {
    return with(absl::StrContains(message, "cannot listen") ? kPortPermissionAdvice
                                                            : kPermissionAdvice);
  }
  return message;
}

void ReportFatal(const std::string& message) {
  LogAndPrint(WithAdvice(message));
  spdlog::shutdown();
}

ReportedAborts::ReportedAborts(std::string message) : message_(std::move(message)) {
  ASSERT(abort_message == nullptr, "there is one object at a time");
  abort_message = &message_;
  signal(SIGABRT, OnAbort);
}

ReportedAborts::~ReportedAborts() {
  signal(SIGABRT, SIG_DFL);
  abort_message = nullptr;
}

void DoNotReportAbort() { signal(SIGABRT, SIG_DFL); }

void ReportUnhandledSystemErrors() { std::set_terminate(OnTerminate); }

}  // namespace quorate::rpc
