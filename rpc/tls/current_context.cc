// SPDX-License-Identifier: Apache-2.0

#include "rpc/tls/current_context.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/file_stamp.h"
#include "base/thread.h"

namespace quorate::rpc::tls {
namespace {

constexpr auto kPeriod = std::chrono::seconds(2);

void LogWarnings(const Context& context) {
  for (const std::string& warning : context.warnings()) spdlog::warn("TLS: {}", warning);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CurrentContext>> CurrentContext::Create(const Options& options,
                                                                       bool reloads) {
  // Taken before the files are read, so that a change meanwhile is found later.
  std::vector<FileStamp> stamps = Stamps(options);
  absl::StatusOr<std::shared_ptr<const Context>> context = Context::Create(options);
  if (!context.ok()) return context.status();
  LogWarnings(**context);
  std::unique_ptr<CurrentContext> current(
      new CurrentContext(options, std::move(stamps), *std::move(context)));
  if (reloads) {
    current->thread_ = StartThread("tls-reload", [object = current.get()] { object->Run(); });
  }
  return current;
}

CurrentContext::CurrentContext(const Options& options, std::vector<FileStamp> stamps,
                               std::shared_ptr<const Context> context)
    : options_(options), stamps_(std::move(stamps)), context_(std::move(context)) {}

CurrentContext::~CurrentContext() {
  {
    MutexLock lock(&mutex_);
    stops_ = true;
  }
  stopping_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Context> CurrentContext::Get() const {
  MutexLock lock(&mutex_);
  return context_;
}

bool CurrentContext::Refresh() {
  std::vector<FileStamp> stamps = Stamps(options_);
  // The reason why files could not be used may end without a change of theirs, for example if this
  // process was not yet allowed to read them.
  const std::shared_ptr<const Context> before = Get();
  const auto is_unchanged = [](const FileStamp& stamp) { return StampOf(stamp.path) == stamp; };
  const bool has_changed =
      stamps != stamps_ || (problem_.ok() && !absl::c_all_of(before->list_stamps(), is_unchanged));
  if (!has_changed && problem_.ok()) return false;
  stamps_ = std::move(stamps);
  absl::StatusOr<std::shared_ptr<const Context>> context = Context::Create(options_);
  const bool is_known = context.status() == problem_;
  problem_ = context.status();
  if (!context.ok()) {
    if (is_known && !has_changed) return false;
    spdlog::error(
        "the changed stores of TLS cannot be used, and new connections get the certificate from "
        "before: {}",
        std::string(context.status().message()));
    return false;
  }
  LogWarnings(**context);
  spdlog::info("the stores of TLS have changed: new connections use them");
  MutexLock lock(&mutex_);
  context_ = *std::move(context);
  return true;
}

void CurrentContext::Run() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      const auto deadline = std::chrono::steady_clock::now() + kPeriod;
      while (!stops_ && stopping_.WaitUntil(&mutex_, deadline)) {
      }
      if (stops_) return;
    }
    Refresh();
  }
}

}  // namespace quorate::rpc::tls
