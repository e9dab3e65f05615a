// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/reads.h"

#include <string_view>
#include <vector>

#include "rpc/frontend/config_node.h"
#include "tree/path.h"

namespace quorate::rpc::native {
namespace {

bool IsPath(const std::string& path) { return tree::IsValidPath(path, /*sequential=*/false); }

}  // namespace

v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetResult* result) {
  if (!IsPath(path)) return v1::ERROR_CODE_BAD_ARGUMENTS;
  std::string_view data;
  bool has_data = false;
  tree::Stat stat;
  const tree::ErrorCode error = tree.GetData(path, identities.all(), &data, &has_data, &stat);
  if (error != tree::ErrorCode::kOk) return ToProto(error);
  CompleteConfigNode(members_text, path, &stat, &data, &has_data);
  result->set_data(data.data(), data.size());
  ToProto(stat, result->mutable_stat());
  return v1::ERROR_CODE_UNSPECIFIED;
}

v1::ErrorCode Read(const tree::Tree& tree, const std::string& path, const ClientIdentities&,
                   const std::string& members_text, v1::ExistsResult* result) {
  if (!IsPath(path)) return v1::ERROR_CODE_BAD_ARGUMENTS;
  tree::Stat stat;
  const tree::ErrorCode error = tree.Exists(path, &stat);
  if (error == tree::ErrorCode::kNoNode) return v1::ERROR_CODE_UNSPECIFIED;
  if (error != tree::ErrorCode::kOk) return ToProto(error);
  CompleteConfigNode(members_text, path, &stat);
  result->set_exists(true);
  ToProto(stat, result->mutable_stat());
  return v1::ERROR_CODE_UNSPECIFIED;
}

v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetAclResult* result) {
  if (!IsPath(path)) return v1::ERROR_CODE_BAD_ARGUMENTS;
  tree::Stat stat;
  std::vector<tree::Acl> acl;
  const tree::ErrorCode error = tree.GetAcl(path, identities.all(), &acl, &stat);
  if (error != tree::ErrorCode::kOk) return ToProto(error);
  CompleteConfigNode(members_text, path, &stat);
  for (const tree::Acl& entry : acl) ToProto(entry, result->add_acl());
  ToProto(stat, result->mutable_stat());
  return v1::ERROR_CODE_UNSPECIFIED;
}

}  // namespace quorate::rpc::native
