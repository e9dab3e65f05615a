// SPDX-License-Identifier: Apache-2.0

#include "rpc/sasl/names.h"

#include <re2/re2.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/strings.h"

namespace quorate::rpc::sasl {
namespace {

constexpr size_t kRulesMax = 1000;
// More than this many parts in a rule never apply, because a name has at most two.
constexpr int kPartsMax = 100;

absl::Status BadRule(absl::string_view rule, absl::string_view problem) {
  constexpr size_t kShownBytes = 100;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", rule.substr(0, kShownBytes), "\": ", problem,
                   "; a rule is DEFAULT or RULE:[N:FORMAT](PATTERN)s/FROM/TO/g, where all after ] "
                   "may be left out"));
}

// Cuts the text before the next `end` off `*rest`, and the `end` too. Returns nullopt if there is
// none.
std::optional<absl::string_view> TakeUntil(char end, absl::string_view* rest) {
  const size_t size = rest->find(end);
  if (size == rest->npos) return std::nullopt;
  const absl::string_view text = rest->substr(0, size);
  rest->remove_prefix(size + 1);
  return text;
}

std::unique_ptr<RE2> MakePattern(absl::string_view text) {
  RE2::Options options;
  options.set_log_errors(false);
  return std::make_unique<RE2>(re2::StringPiece(text.data(), text.size()), options);
}

// Returns the replacement `to`, in which $1 stands for a group and a backslash makes the next
// character stand for itself, in the form of RE2; nullopt if it names a group that does not exist.
std::optional<std::string> RewriteOf(absl::string_view to, int groups) {
  std::string rewrite;
  const auto append = [&rewrite](char c) {
    rewrite += c == '\\' ? std::string("\\\\") : std::string(1, c);
  };
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == '\\') {
      if (++i == to.size()) return std::nullopt;
      append(to[i]);
    } else if (to[i] == '$') {
      if (++i == to.size() || !absl::ascii_isdigit(static_cast<unsigned char>(to[i]))) {
        return std::nullopt;
      }
      // As in Java, further digits belong to the number as long as there is such a group.
      int group = to[i] - '0';
      while (i + 1 < to.size() && absl::ascii_isdigit(static_cast<unsigned char>(to[i + 1])) &&
             group * 10 + (to[i + 1] - '0') <= groups) {
        group = group * 10 + (to[++i] - '0');
      }
      if (group > groups || group > 9) return std::nullopt;
      absl::StrAppend(&rewrite, "\\", group);
    } else {
      append(to[i]);
    }
  }
  return rewrite;
}

}  // namespace

struct NameRules::Rule {
  // A piece of a format: text, and then a part of the name.
  struct Piece {
    std::string text;
    int part = -1;  // -1: none
  };

  bool is_default = false;
  int parts = 0;
  std::vector<Piece> format;
  std::unique_ptr<RE2> pattern;  // null: every text
  std::unique_ptr<RE2> from;     // null: nothing is replaced
  std::string rewrite;
  bool replaces_all = false;

  std::optional<std::string> Apply(const std::vector<std::string_view>& params,
                                   std::string_view default_realm) const;
  // Sets the format from `text`. Returns whether it is valid.
  bool SetFormat(absl::string_view text);
};

bool NameRules::Rule::SetFormat(absl::string_view text) {
  while (!text.empty()) {
    const size_t dollar = text.find('$');
    Piece& piece = format.emplace_back();
    piece.text = std::string(text.substr(0, dollar));
    if (dollar == text.npos) break;
    text.remove_prefix(dollar + 1);
    size_t digits = 0;
    while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) {
      ++digits;
    }
    if (!absl::SimpleAtoi(text.substr(0, digits), &piece.part) || piece.part > parts) return false;
    text.remove_prefix(digits);
  }
  return true;
}

std::optional<std::string> NameRules::Rule::Apply(const std::vector<std::string_view>& params,
                                                  std::string_view default_realm) const {
  if (is_default) {
    if (params[0] != default_realm) return std::nullopt;
    return std::string(params[1]);
  }
  if (static_cast<size_t>(parts) + 1 != params.size()) return std::nullopt;
  std::string text;
  for (const Piece& piece : format) {
    text += piece.text;
    if (piece.part >= 0) text += params[static_cast<size_t>(piece.part)];
  }
  if (pattern != nullptr && !RE2::FullMatch(text, *pattern)) return std::nullopt;
  if (from != nullptr) {
    if (replaces_all) {
      RE2::GlobalReplace(&text, *from, rewrite);
    } else {
      RE2::Replace(&text, *from, rewrite);
    }
  }
  return text;
}

std::optional<KerberosName> ParseKerberosName(std::string_view name) {
  const size_t at = name.find('@');
  if (at == name.npos) return KerberosName{std::string(name), std::nullopt, std::nullopt};
  const std::string_view realm = name.substr(at + 1);
  const std::string_view parts = name.substr(0, at);
  if (realm.find_first_of("/@") != realm.npos) return std::nullopt;
  KerberosName parsed;
  parsed.realm = std::string(realm);
  const size_t slash = parts.find('/');
  parsed.service = std::string(parts.substr(0, slash));
  if (slash == parts.npos) return parsed;
  parsed.host = std::string(parts.substr(slash + 1));
  if (parsed.host->find('/') != std::string::npos) return std::nullopt;
  return parsed;
}

NameRules::NameRules(std::string default_realm) : default_realm_(std::move(default_realm)) {}
NameRules::NameRules(NameRules&&) noexcept = default;
NameRules& NameRules::operator=(NameRules&&) noexcept = default;
NameRules::~NameRules() = default;

absl::StatusOr<NameRules> NameRules::Parse(std::string_view text, std::string default_realm) {
  NameRules rules(std::move(default_realm));
  absl::string_view rest = absl::StripAsciiWhitespace(ToAbsl(text));
  while (!rest.empty()) {
    const absl::string_view whole = rest;
    auto rule = std::make_unique<Rule>();
    if (absl::ConsumePrefix(&rest, "DEFAULT")) {
      rule->is_default = true;
    } else {
      if (!absl::ConsumePrefix(&rest, "RULE:[")) return BadRule(whole, "this is no rule");
      const std::optional<absl::string_view> parts = TakeUntil(':', &rest);
      if (!parts.has_value() || !absl::SimpleAtoi(*parts, &rule->parts) || rule->parts < 0 ||
          rule->parts > kPartsMax) {
        return BadRule(whole, "the number of parts is not valid");
      }
      const std::optional<absl::string_view> format = TakeUntil(']', &rest);
      if (!format.has_value() || !rule->SetFormat(*format)) {
        return BadRule(whole, "the format is not valid, or has a $ for a part that there is not");
      }
      if (absl::ConsumePrefix(&rest, "(")) {
        const std::optional<absl::string_view> pattern = TakeUntil(')', &rest);
        if (!pattern.has_value()) return BadRule(whole, "a ( has no )");
        rule->pattern = MakePattern(*pattern);
        if (!rule->pattern->ok()) return BadRule(whole, rule->pattern->error());
      }
      if (absl::ConsumePrefix(&rest, "s/")) {
        const std::optional<absl::string_view> from = TakeUntil('/', &rest);
        const std::optional<absl::string_view> to =
            from.has_value() ? TakeUntil('/', &rest) : std::nullopt;
        if (!to.has_value()) return BadRule(whole, "a slash is missing after s/");
        rule->from = MakePattern(*from);
        if (!rule->from->ok()) return BadRule(whole, rule->from->error());
        std::optional<std::string> rewrite = RewriteOf(*to, rule->from->NumberOfCapturingGroups());
        if (!rewrite.has_value()) {
          return BadRule(whole, "the replacement has a $ or a \\ that is not valid");
        }
        rule->rewrite = *std::move(rewrite);
        rule->replaces_all = absl::ConsumePrefix(&rest, "g");
      }
    }
    rules.rules_.push_back(std::move(rule));
    if (rules.rules_.size() > kRulesMax) return BadRule(whole, "there are too many rules");
    rest = absl::StripLeadingAsciiWhitespace(rest);
  }
  return rules;
}

absl::StatusOr<std::string> NameRules::ShortName(const KerberosName& name) const {
  if (!name.realm.has_value()) return name.service;
  std::vector<std::string_view> params = {*name.realm, name.service};
  if (name.host.has_value()) params.emplace_back(*name.host);
  for (const auto& rule : rules_) {
    std::optional<std::string> result = rule->Apply(params, default_realm_);
    if (!result.has_value()) continue;
    if (result->find_first_of("/@") != std::string::npos) {
      return absl::InvalidArgumentError("a rule gives a name with / or @");
    }
    return *std::move(result);
  }
  return absl::NotFoundError("no rule applies");
}

absl::StatusOr<std::string> IdMapping::IdOf(std::string_view name, std::string_view wanted) const {
  const std::optional<KerberosName> parsed = ParseKerberosName(name);
  if (!parsed.has_value()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the name \"", ToAbsl(name), "\" is not of the form service/host@realm"));
  }
  absl::StatusOr<std::string> id = rules_.ShortName(*parsed);
  if (!id.ok()) {
    if (wanted.empty() || wanted == name) return std::string(name);
    return absl::UnauthenticatedError(absl::StrCat(
        "the client is \"", ToAbsl(name), "\" and asks to act as \"", ToAbsl(wanted),
        "\"; the rules of security.auth_to_local give it no name: ", id.status().message()));
  }
  if (parsed->host.has_value() && !removes_host_) absl::StrAppend(&*id, "/", *parsed->host);
  if (parsed->realm.has_value() && !removes_realm_) absl::StrAppend(&*id, "@", *parsed->realm);
  return id;
}

}  // namespace quorate::rpc::sasl
