// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/divergence_marker.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/crc32c.h"

namespace quorate::rpc {
namespace {

// A limit of what is read, far above the size of a marker.
constexpr size_t kBytesMax = 4096;
constexpr char kChecksumName[] = "crc32c 0x";
constexpr char kAdvice[] =
    ": it must not serve. Run `quorate rebuild` on its directories and start it again: they are "
    "moved aside, and the member is rebuilt from the others";

std::string PathOf(const std::string& dir) { return absl::StrCat(dir, "/", kDivergenceMarkerName); }

std::string Encode(const Divergence& divergence) {
  std::string text = absl::StrFormat(
      "quorate-divergence 1\nzxid 0x%x\ndigest 0x%016x\nmajority 0x%016x\n",
      static_cast<uint64_t>(divergence.zxid), divergence.own_digest, divergence.majority_digest);
  absl::StrAppend(&text, kChecksumName, absl::Hex(Crc32c(text), absl::kZeroPad8), "\n");
  return text;
}

// Sets `*number` to the number in `line`. Returns false if the line is not `name` and a number.
bool TakeNumber(absl::string_view line, absl::string_view name, uint64_t* number) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  return words.size() == 2 && words[0] == name && absl::SimpleHexAtoi(words[1], number);
}

std::optional<Divergence> Decode(const std::string& text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  Divergence divergence;
  uint64_t zxid = 0;
  if (lines.size() != 6 || !TakeNumber(lines[1], "zxid", &zxid) ||
      !TakeNumber(lines[2], "digest", &divergence.own_digest) ||
      !TakeNumber(lines[3], "majority", &divergence.majority_digest)) {
    return std::nullopt;
  }
  divergence.zxid = static_cast<int64_t>(zxid);
  // Encoding the result again checks the first line, the checksum, and that nothing else is in the
  // text.
  return Encode(divergence) == text ? std::optional(divergence) : std::nullopt;
}

}  // namespace

absl::Status WriteDivergenceMarker(consensus::Env* env, const std::string& dir,
                                   const Divergence& divergence) {
  const std::string temporary = PathOf(dir) + ".new";
  auto file = env->OpenFile(temporary, /*create=*/true);
  if (!file.ok()) return file.status();
  const std::string text = Encode(divergence);
  const std::string_view pieces[] = {text};
  if (absl::Status s = (*file)->Truncate(0); !s.ok()) return s;
  if (absl::Status s = (*file)->WriteAt(0, pieces); !s.ok()) return s;
  if (absl::Status s = (*file)->Sync(); !s.ok()) return s;
  if (absl::Status s = env->Rename(temporary, PathOf(dir)); !s.ok()) return s;
  return env->SyncDirectory(dir);
}

absl::StatusOr<std::optional<Divergence>> ReadDivergenceMarker(consensus::Env* env,
                                                               const std::string& dir) {
  if (!env->Exists(PathOf(dir))) return std::nullopt;
  auto file = env->OpenFile(PathOf(dir), /*create=*/false);
  if (!file.ok()) return file.status();
  std::string text(kBytesMax, '\0');
  auto size = (*file)->ReadAt(0, text.size(), text.data());
  if (!size.ok()) return size.status();
  text.resize(*size);
  const std::optional<Divergence> divergence = Decode(text);
  if (!divergence.has_value()) {
    return absl::DataLossError(
        absl::StrCat(PathOf(dir),
                     ": this file says that the member's tree differs from the others', and is "
                     "damaged itself",
                     kAdvice));
  }
  return divergence;
}

absl::Status DivergenceError(const std::string& dir, const Divergence& divergence) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: this member's tree differs from that of a majority: at zxid 0x%x its digest is %016x, "
      "theirs %016x%s",
      dir, static_cast<uint64_t>(divergence.zxid), divergence.own_digest,
      divergence.majority_digest, kAdvice));
}

absl::Status CheckNotDiverged(consensus::Env* env, const std::string& dir) {
  auto divergence = ReadDivergenceMarker(env, dir);
  if (!divergence.ok()) return divergence.status();
  if (!divergence->has_value()) return absl::OkStatus();
  // Makes the marker durable: the process that renamed the file may have ended before it synced the
  // directory.
  if (absl::Status s = env->SyncDirectory(dir); !s.ok()) return s;
  return DivergenceError(dir, **divergence);
}

}  // namespace quorate::rpc
