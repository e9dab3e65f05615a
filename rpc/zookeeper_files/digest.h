// SPDX-License-Identifier: Apache-2.0

// ZooKeeper's digest of a tree, version 2: the sum of a CRC-32 of each znode.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "rpc/zookeeper_files/checksum.h"
#include "tree/types.h"

namespace quorate::zookeeper_files {

inline constexpr int32_t kDigestVersion = 2;

// The fields that the digest covers besides path and data. The cversion is the stored one, which
// counts only creations of children.
struct DigestStat {
  tree::Zxid czxid;
  tree::Zxid mzxid;
  tree::Zxid pzxid;
  int64_t ctime_ms = 0;
  int64_t mtime_ms = 0;
  int32_t version = 0;
  int32_t stored_cversion = 0;
  int32_t aversion = 0;
  tree::SessionId owner;
};

inline uint64_t NodeDigest(std::string_view path, std::string_view data, const DigestStat& stat) {
  // Skips znodes below /zookeeper, which differ from server to server: each server counts quotas by
  // itself.
  if (path.starts_with("/zookeeper/")) return 0;
  if (path == "/") path = {};
  std::string bytes;
  BigEndianWriter writer(&bytes);
  writer.Int(stat.czxid.value());
  writer.Int(stat.mzxid.value());
  writer.Int(stat.pzxid.value());
  writer.Int(stat.ctime_ms);
  writer.Int(stat.mtime_ms);
  writer.Int(stat.version);
  writer.Int(stat.stored_cversion);
  writer.Int(stat.aversion);
  writer.Int(stat.owner.value());
  return Crc32(bytes, Crc32(data, Crc32(path)));
}

}  // namespace quorate::zookeeper_files
