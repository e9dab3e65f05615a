// SPDX-License-Identifier: Apache-2.0

#include "tools/backup/new_member.h"

#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "tools/cli/progress_bar.h"
#include "tools/cli/text.h"

namespace quorate::tools {

std::string LossText(const LoadedMember& from, uint64_t last_zxid) {
  if (from.commit.only_voter) {
    return "Nothing is lost: it was the only voter of its cluster, and has all acknowledged "
           "writes.";
  }
  std::string text =
      absl::StrCat("May be lost: whatever the other members acknowledged behind zxid ",
                   Hex(last_zxid), " (term ", from.term,
                   "). Only their disks could tell whether there was anything. If one of them can "
                   "still be read, use the one with the highest term, and the highest zxid in it "
                   "(quorate verify DIR shows both).");
  if (from.commit.open > 0) {
    absl::StrAppend(
        &text, "\nKept: the last ", from.commit.open, " entries, behind zxid ",
        Hex(from.commit.known.value()),
        ", of which this directory alone does not say that they were committed. Clients "
        "may not have been told that these writes succeeded.");
  }
  if (from.was_recovering) {
    absl::StrAppend(&text,
                    "\nThis member had lost its disk before, and was not filled again yet: "
                    "more than usual may be missing.");
  }
  return text;
}

absl::Status WriteMember(const NewMember& member, const tree::Tree& tree, uint64_t term,
                         uint64_t records_total) {
  auto writer = MemberDirectoryWriter::Create(member, tree.last_zxid(), term, tree.digest());
  if (!writer.ok()) return writer.status();
  ProgressBar progress("writing");
  absl::Status status;
  uint64_t records = 0;
  uint64_t bytes = 0;
  tree.ForEachRecord([&](std::string_view key, std::optional<std::string_view> value) {
    if (!status.ok()) return;
    status = (*writer)->Add(key, *value);
    bytes += key.size() + value->size();
    progress.Update(++records, records_total, bytes);
  });
  if (status.ok()) status = (*writer)->Finish();
  if (status.ok()) progress.Finish();
  return status;
}

}  // namespace quorate::tools
