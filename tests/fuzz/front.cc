// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/front.h"

#include <spdlog/spdlog.h>

namespace quorate::fuzz {

rpc::Config FuzzConfig() {
  spdlog::set_level(spdlog::level::off);
  rpc::Config config;
  config.tick_time_ms = 2000;
  config.min_session_timeout_ms = 4000;
  config.max_session_timeout_ms = 40000;
  config.jute_max_buffer_bytes = 1 << 16;
  config.four_letter_words = {"*"};
  return config;
}

Front::Front() : config_(FuzzConfig()) { sockets_.SetLoop(&loop_); }

bool TreeService::Work(rpc::Frontend* frontend) {
  const auto batches = std::exchange(batches_, {});
  const auto syncs = std::exchange(syncs_, {});
  if (batches.empty() && syncs.empty()) return false;
  {
    rpc::GuardedTree::WriteGuard tree = tree_.Write();
    for (const rpc::CommandBatch& batch : batches) {
      for (const rpc::CommandBatch::Range& range : batch.commands) {
        char* command = batch.bytes->data() + range.offset;
        ++zxid_;
        tree::StampSequence(command, static_cast<uint64_t>(zxid_));
        tree::StampTime(command, zxid_);
        tree->Apply(tree::Zxid(zxid_), batch.view(range), proposer(), frontend);
      }
    }
  }
  frontend->OnBatchApplied();
  for (const auto& [tag, id] : syncs) frontend->OnSyncDone(tag, id, tree::Zxid(zxid_));
  return true;
}

void Front::Settle() {
  do {
    sockets_.RunIterations();
  } while (service_.Work(&frontend_));
}

}  // namespace quorate::fuzz
