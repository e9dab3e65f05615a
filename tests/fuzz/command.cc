// SPDX-License-Identifier: Apache-2.0

// Commands as other servers forward them: commands that decode can be applied.
#include "tree/command.h"

#include <string>

#include "base/assert.h"
#include "tests/fuzz/fuzz.h"
#include "tree/tree.h"

namespace quorate::fuzz {
namespace {

class Listener final : public tree::ApplyListener {
 public:
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
  void OnSessionAttached(const tree::SessionInfo&) override {}
  void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
  void OnResult(tree::ApplyResult) override {}
};

bool Decodes(std::string_view command) {
  const auto header = tree::DecodeHeader(command);
  if (!header.ok()) return false;
  switch (header->kind) {
    case tree::CommandKind::kCreateSession:
    case tree::CommandKind::kAttachSession:
      return tree::DecodeSessionBody(command).ok();
    case tree::CommandKind::kRequest:
      return tree::DecodeRequest(command).ok();
    case tree::CommandKind::kSequencedRequest:
      return tree::DecodeSequencedRequest(command).ok();
    case tree::CommandKind::kDeleteContainer:
      return tree::DecodeDeleteContainer(command).ok();
    case tree::CommandKind::kCloseSession:
    case tree::CommandKind::kExpireSession:
      return true;
  }
  return false;
}

}  // namespace

// Input: pieces, each after two bytes with its length.
void Run(Input input) {
  tree::Tree tree;
  Listener listener;
  int64_t zxid = 0;
  while (!input.empty()) {
    const auto size = input.Take<uint16_t>();
    std::string command(input.TakeBytes(size));
    if (!Decodes(command)) continue;
    // Sets the zxid and the sequence, which random input would hardly ever have in order.
    ++zxid;
    tree::StampSequence(command.data(), static_cast<uint64_t>(zxid));
    tree::StampTime(command.data(), zxid);
    tree.Apply(tree::Zxid(zxid), command, tree::ProposerOf(command), &listener);
  }
  ASSERT(tree.digest() == tree.ComputeDigest(), "the digest follows every change");
}

}  // namespace quorate::fuzz
