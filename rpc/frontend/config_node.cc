// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/config_node.h"

namespace quorate::rpc {
namespace {

constexpr std::string_view kConfigPath = "/zookeeper/config";
constexpr int32_t kConfigVersion = -1;  // as that of the data that ZooKeeper writes at a start

}  // namespace

void CompleteConfigNode(std::string_view members_text, std::string_view path, tree::Stat* stat,
                        std::string_view* data, bool* has_data) {
  // Data that a change of members, or an administrator, has written to the znode is shown unchanged.
  if (path != kConfigPath || members_text.empty() || stat->data_length != 0) return;
  stat->data_length = static_cast<int32_t>(members_text.size());
  stat->version = kConfigVersion;
  if (data != nullptr) *data = members_text;
  if (has_data != nullptr) *has_data = true;
}

std::string ReadMembersText(const tree::Tree& tree, std::string_view members_text) {
  // The super user, because the znode may have been given another access control list.
  const tree::Identity super{"super", ""};
  std::string_view data;
  bool has_data = false;
  tree::Stat stat;
  const tree::ErrorCode error = tree.GetData(kConfigPath, {&super, 1}, &data, &has_data, &stat);
  return std::string(error == tree::ErrorCode::kOk && !data.empty() ? data : members_text);
}

}  // namespace quorate::rpc
