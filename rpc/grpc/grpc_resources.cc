// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/grpc_resources.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace quorate::rpc {
namespace {

// gRPC 1.51 starts with 11 descriptors and 11 threads. The rest is for its first calls.
constexpr int kDescriptors = 16;
constexpr int kThreads = 16;

absl::Status CheckDescriptors() {
  std::vector<int> taken;
  int error = 0;
  while (error == 0 && taken.size() < kDescriptors) {
    const int fd = eventfd(0, EFD_CLOEXEC);
    if (fd < 0) {
      error = errno;
    } else {
      taken.push_back(fd);
    }
  }
  for (const int fd : taken) close(fd);
  if (error == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot start gRPC (grpcPort): it needs ", kDescriptors,
                   " file descriptors besides those in use, and gets ", taken.size(), ": ",
                   std::strerror(error)));
}

// Threads that wait until the object ends.
class WaitingThreads {
 public:
  WaitingThreads() = default;
  ~WaitingThreads() {
    {
      MutexLock lock(&mutex_);
      may_end_ = true;
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  WaitingThreads(const WaitingThreads&) = delete;
  WaitingThreads& operator=(const WaitingThreads&) = delete;

  // Starts a thread. Throws std::system_error if the system refuses it.
  void Add() {
    threads_.push_back(StartThread("grpc-probe", [this] {
      MutexLock lock(&mutex_);
      while (!may_end_) changed_.Wait(&mutex_);
    }));
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool may_end_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

absl::Status CheckThreads() {
  int started = 0;
  try {
    WaitingThreads threads;
    for (; started < kThreads; ++started) threads.Add();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot start gRPC (grpcPort): it needs ", kThreads,
        " threads besides those that run, and gets ", started, ": ", error.what(),
        "; raise the limit of processes and threads (ulimit -u, TasksMax= in the systemd unit, "
        "pids.max of the container), or of address space (ulimit -v), which their stacks need"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckGrpcResources() {
  if (absl::Status s = CheckDescriptors(); !s.ok()) return s;
  return CheckThreads();
}

}  // namespace quorate::rpc
