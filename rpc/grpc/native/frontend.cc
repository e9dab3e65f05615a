// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/frontend.h"

#include <spdlog/spdlog.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/proto/errors.h"

template class quorate::rpc::ClientFrontend<quorate::rpc::native::StreamLoop>;

namespace quorate::rpc::native {
namespace {

// The approximate memory of a watch here and in its stream, in bytes, without its path.
constexpr size_t kWatchBytes = 250;

}  // namespace

NativeFrontend::NativeFrontend(const Config& config, Service* service, const Clock* clock,
                               RandomBytes* random)
    : ClientFrontend(config, service, clock, random, kNativeTags),
      history_(static_cast<size_t>(config.event_history_bytes)) {}

// --- What was applied ----------------------------------------------------------------------------

bool NativeFrontend::AllowsInlineApply() const {
  if (!watches_mutex_.TryLock()) return false;
  const bool allows_inline = watch_totals_.count <= kInlineWatchesMax;
  watches_mutex_.Unlock();
  return allows_inline;
}

void NativeFrontend::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                                 const tree::EventAcls& acls) {
  listings().OnNodeEvent(type, path);
  const uint64_t number = history_.next_number();
  const Readers readers = ReadersOf(acls.node);
  const Readers parent_readers =
      type == tree::EventType::kNodeDataChanged ? nullptr : ReadersOf(acls.parent);
  history_.Add(type, path, zxid, readers, parent_readers);
  MutexLock lock(&watches_mutex_);
  if (watches_.empty()) return;
  watchers_.clear();
  watches_.Find(path, &watchers_);
  if (watchers_.empty()) return;
  const auto event =
      std::make_shared<const Event>(Event{type, std::string(path), zxid, readers, parent_readers});
  for (uint64_t watcher : watchers_) {
    const auto tag = static_cast<uint32_t>(watcher);
    LoopOf(tag).Push(EventItem{tag, number, event});
  }
}

void NativeFrontend::OnTreeReplaced(const tree::Tree& tree) {
  history_.Clear(tree.last_zxid());
  ClientFrontend::OnTreeReplaced(tree);
}

std::shared_ptr<const RecentEvents> NativeFrontend::TakeRecentEvents() const {
  return history_.Take();
}

void NativeFrontend::OnRecentEvents(std::span<const std::string> parts, tree::Zxid zxid) {
  const absl::Status restored = history_.Restore(parts, zxid);
  if (restored.ok()) return;
  spdlog::warn(
      "watches of gRPC clients cannot resume from before the checkpoint: {}; their clients learn "
      "that events were lost, and read again; nothing has to be done here",
      std::string(restored.message()));
}

WatchTotals NativeFrontend::watch_totals() const {
  MutexLock lock(&watches_mutex_);
  return watch_totals_;
}

// --- Streams -------------------------------------------------------------------------------------

absl::Status NativeFrontend::AdmitStream(const std::string& address) {
  switch (Admit(address)) {
    case Admission::kAdmitted:
      return absl::OkStatus();
    case Admission::kTooMany:
      return ToStatus(v1::TOO_MANY_STREAMS,
                      absl::StrCat(config().max_connections, " streams are open (maxCnxns)"));
    case Admission::kTooManyOfAddress:
      return ToStatus(v1::TOO_MANY_STREAMS,
                      absl::StrCat(address, " has ", config().max_client_connections,
                                   " streams already (maxClientCnxns)"));
  }
  return absl::OkStatus();
}

void NativeFrontend::AddWatch(uint32_t tag, std::string_view path, Scope scope) {
  MutexLock lock(&watches_mutex_);
  watches_.Add(tag, path, scope);
  ++watch_totals_.count;
  watch_totals_.bytes += kWatchBytes + path.size();
}

void NativeFrontend::RemoveWatch(uint32_t tag, std::string_view path, Scope scope) {
  MutexLock lock(&watches_mutex_);
  watches_.Remove(tag, path, scope);
  ASSERT(watch_totals_.count > 0, "a watch is removed once");
  --watch_totals_.count;
  watch_totals_.bytes -= kWatchBytes + path.size();
}

}  // namespace quorate::rpc::native
