// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/frontend.h"

#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/proto/errors.h"

template class quorate::rpc::ClientFrontend<quorate::rpc::native::StreamLoop>;

namespace quorate::rpc::native {
namespace {

// The approximate memory of a watch here and in its stream, in bytes, without its path.
constexpr size_t kWatchBytes = 250;
// The most bytes of data of recent events that are kept for watches that want them.
constexpr size_t kValuesBytesMax = 16u << 20;

}  // namespace

NativeFrontend::NativeFrontend(const Config& config, Service* service, const Clock* clock,
                               RandomBytes* random, const EventHistory* history)
    : ClientFrontend(config, service, clock, random, kNativeTags),
      history_(history),
      values_(kValuesBytesMax, &service->memory()) {}

// --- What was applied ----------------------------------------------------------------------------

bool NativeFrontend::AllowsInlineApply() const {
  // The data of events are copied while the tree is locked.
  if (WantsNodeValues()) return false;
  if (!watches_mutex_.TryLock()) return false;
  const bool allows_inline = watch_totals_.count <= kInlineWatchesMax;
  watches_mutex_.Unlock();
  return allows_inline;
}

void NativeFrontend::OnNodeEvent(tree::EventType type, std::string_view path, tree::Zxid zxid,
                                 const tree::EventAcls& acls) {
  listings().OnNodeEvent(type, path);
  const tree::EventValues* const values = std::exchange(event_values_, nullptr);
  if (values == nullptr && values_.bytes() > 0 && !WantsNodeValues()) values_.Clear();
  MutexLock lock(&watches_mutex_);
  if (watches_.empty()) return;
  watchers_.clear();
  watches_.Find(path, &watchers_);
  if (watchers_.empty()) return;
  const Readers readers = readers_.Of(zxid, acls.node);
  const auto event = std::make_shared<const Event>(
      Event{type, std::string(path), zxid, readers,
            type == tree::EventType::kNodeDataChanged ? nullptr : readers_.Of(zxid, acls.parent)});
  const uint64_t number = history_->next_number() - 1;
  if (values != nullptr) {
    std::vector<uint64_t> valued;
    valued_.Find(path, &valued);
    if (!valued.empty()) values_.Add(number, zxid, *values);
  }
  for (uint64_t watcher : watchers_) {
    const auto tag = static_cast<uint32_t>(watcher);
    LoopOf(tag).Push(EventItem{tag, number, event});
  }
}

void NativeFrontend::OnTreeReplaced(const tree::Tree& tree) {
  values_.Clear();
  ClientFrontend::OnTreeReplaced(tree);
}

WatchTotals NativeFrontend::watch_totals() const {
  MutexLock lock(&watches_mutex_);
  return watch_totals_;
}

// --- Streams -------------------------------------------------------------------------------------

absl::Status NativeFrontend::AdmitStream(const std::string& address, bool may_exceed) {
  switch (Admit(address, may_exceed)) {
    case Admission::kAdmitted:
      return absl::OkStatus();
    case Admission::kTooMany:
      return ToStatus(v1::ERROR_CODE_TOO_MANY_STREAMS,
                      absl::StrCat(config().max_connections, " streams are open (maxCnxns)"));
    case Admission::kTooManyOfAddress:
      return ToStatus(v1::ERROR_CODE_TOO_MANY_STREAMS,
                      absl::StrCat(address, " has ", config().max_client_connections,
                                   " streams already (maxClientCnxns)"));
  }
  return absl::OkStatus();
}

bool NativeFrontend::NotifyEphemerals(tree::SessionId session, size_t count) {
  const std::optional<uint32_t> tag = TagOfSession(session);
  if (!tag.has_value()) return false;
  LoopOf(*tag).Push(EphemeralsItem{*tag, count});
  LoopOf(*tag).Wake();
  return true;
}

void NativeFrontend::AddWatch(uint32_t tag, std::string_view path, Scope scope, bool wants_values) {
  MutexLock lock(&watches_mutex_);
  watches_.Add(tag, path, scope);
  if (wants_values) {
    valued_.Add(tag, path, scope);
    ++valued_count_;
  }
  ++watch_totals_.count;
  watch_totals_.bytes += kWatchBytes + path.size();
}

void NativeFrontend::RemoveWatch(uint32_t tag, std::string_view path, Scope scope,
                                 bool wants_values) {
  MutexLock lock(&watches_mutex_);
  watches_.Remove(tag, path, scope);
  if (wants_values) {
    valued_.Remove(tag, path, scope);
    --valued_count_;
  }
  ASSERT(watch_totals_.count > 0, "a watch is removed once");
  --watch_totals_.count;
  watch_totals_.bytes -= kWatchBytes + path.size();
}

}  // namespace quorate::rpc::native
