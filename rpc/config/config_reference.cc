// SPDX-License-Identifier: Apache-2.0

#include "rpc/config/config_reference.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/strings.h"
#include "rpc/config/config_keys.h"

namespace quorate::rpc {
namespace {

constexpr size_t kColumns = 100;
constexpr absl::string_view kGeneratedBegin = "<!-- generated";
constexpr absl::string_view kGeneratedEnd = "-->\n";

absl::string_view Title(Section section) {
  switch (section) {
    case Section::kCluster:
      return "Cluster and addresses";
    case Section::kData:
      return "Data";
    case Section::kTimes:
      return "Times";
    case Section::kLimits:
      return "Limits";
    case Section::kAccess:
      return "Access";
    case Section::kTls:
      return "TLS of ZooKeeper clients";
    case Section::kMemberTls:
      return "TLS and the secret between members";
    case Section::kSasl:
      return "SASL of ZooKeeper clients, and required authentication";
    case Section::kHttp:
      return "HTTP and metrics";
  }
  return "";
}

std::string Default(const ConfigKey& key) {
  if (!key.default_text.empty()) return std::string(key.default_text);
  if (const auto* integer = std::get_if<Integer>(&key.value)) {
    return AmountText(Config().*integer->field, integer->unit);
  }
  return ValueText(key.value, Config());
}

std::string Range(const ConfigKey& key) {
  return key.range.empty() ? RangeText(key.value) : std::string(key.range);
}

// Returns whether `key` is the first key of its section.
bool BeginsSection(const ConfigKey& key) {
  return &key == &ConfigKeys().front() || key.section != (&key - 1)->section;
}

// Returns `text` for a cell of a Markdown table, in which a | would end the cell.
std::string Cell(absl::string_view text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

// Appends `text`, without the marks of Markdown, as comment lines. The first line begins with
// `begin`, the others with `indent`.
void AppendComment(absl::string_view begin, absl::string_view indent, absl::string_view text,
                   std::string* to) {
  std::string line(begin);
  bool is_empty = true;  // no word was appended yet
  const std::string plain = absl::StrReplaceAll(text, {{"`", ""}});
  for (absl::string_view word : absl::StrSplit(plain, ' ', absl::SkipEmpty())) {
    if (!is_empty && line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(to, line, "\n");
      line = std::string(indent);
      is_empty = true;
    }
    absl::StrAppend(&line, is_empty ? "" : " ", word);
    is_empty = false;
  }
  absl::StrAppend(to, line, "\n");
}

}  // namespace

absl::StatusOr<std::string> UpdatedConfigPage(std::string_view page) {
  absl::string_view before = ToAbsl(page);
  const size_t begin = before.find(kGeneratedBegin);
  const size_t end = before.find(kGeneratedEnd, begin == before.npos ? before.size() : begin);
  if (end == before.npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(kConfigPagePath, ": there is no line \"", kGeneratedBegin,
                     " ... -->\"; put it where the sections of keys begin"));
  }
  std::string text(before.substr(0, end + kGeneratedEnd.size()));
  for (const ConfigKey& key : ConfigKeys()) {
    if (BeginsSection(key)) {
      absl::StrAppend(&text, "\n## ", Title(key.section),
                      "\n\n| key | default | range | meaning |\n| --- | --- | --- | --- |\n");
    }
    absl::StrAppend(&text, "| `", ToAbsl(key.name), "` | ", Cell(Default(key)), " | ",
                    Cell(Range(key)), " | ", Cell(ToAbsl(key.meaning)), " |\n");
  }
  return text;
}

std::string SampleConfig() {
  std::string text =
      "# A configuration for one server that keeps its data in /var/lib/quorate. The comments "
      "explain\n"
      "# all keys. A line #key=value shows the default, or an example if there is no fixed "
      "default.\n"
      "#\n"
      "# In the source tree, this file is generated from rpc/config/config_keys.cc.\n";
  for (const ConfigKey& key : ConfigKeys()) {
    if (BeginsSection(key)) absl::StrAppend(&text, "\n# --- ", Title(key.section), " ---\n");
    text += '\n';
    AppendComment(absl::StrCat("# ", ToAbsl(key.name), ": "), "#   ", ToAbsl(key.meaning), &text);
    AppendComment("#   default: ", "#     ", Default(key), &text);
    AppendComment("#   range: ", "#     ", Range(key), &text);
    const std::string name = key.name == kServerKey ? "server.1" : std::string(key.name);
    absl::StrAppend(&text, key.is_required ? "" : "#", name, "=",
                    key.example.empty() ? ValueText(key.value, Config()) : std::string(key.example),
                    "\n");
  }
  return text;
}

}  // namespace quorate::rpc
