// SPDX-License-Identifier: Apache-2.0

// The context that new connections use. If the files of its stores change, they are read again, and
// connections that are open keep the context that they have. Files that cannot be used are logged,
// and the context before stays.
//
// Thread-safety: any thread.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/condition_variable.h"
#include "base/mutex.h"
#include "rpc/tls/context.h"
#include "rpc/tls/options.h"

namespace quorate::rpc::tls {

class CurrentContext {
 public:
  // Reads the stores. With `reloads`, a thread of the object looks for changes of the files every
  // two seconds; it compares the files themselves, and so sees that a symbolic link leads elsewhere.
  static absl::StatusOr<std::unique_ptr<CurrentContext>> Create(const Options& options,
                                                                bool reloads);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  std::shared_ptr<const Context> Get() const;
  // Reads the stores again if their files have changed since they were read last, or could not be
  // used then. Returns whether there is a new context.
  bool Refresh();

 private:
  CurrentContext(const Options& options, std::vector<FileStamp> stamps,
                 std::shared_ptr<const Context> context);
  void Run();

  const Options options_;
  // These are used by Refresh alone.
  std::vector<FileStamp> stamps_;  // of the files that were read last
  absl::Status problem_;           // why they could not be used; OK if they could
  mutable Mutex mutex_;
  std::shared_ptr<const Context> context_ ABSL_GUARDED_BY(mutex_);
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  ConditionVariable stopping_;
  std::thread thread_;
};

}  // namespace quorate::rpc::tls
