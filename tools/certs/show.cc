// SPDX-License-Identifier: Apache-2.0

#include "tools/certs/show.h"

#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/escape.h"
#include "rpc/tls/stores.h"
#include "tools/certs/certificate_facts.h"
#include "tools/certs/directory.h"

namespace quorate::tools {
namespace {

using certs::CertificateFacts;

constexpr int64_t kSecondsInDay = 86'400;
constexpr int kDaysMax = 36'500;

struct Options {
  std::string file;
  std::string password_file;
  int days = -1;  // negative: not asked for
};

struct StoreFacts {
  bool has_key = false;
  std::vector<CertificateFacts> certificates;
};

// Returns the certificates of a store, that of its key first.
absl::StatusOr<StoreFacts> Read(const Options& options) {
  auto bytes = certs::ReadFile(options.file, rpc::tls::kStoreBytesMax);
  if (!bytes.ok()) return bytes.status();
  std::string password;
  if (!options.password_file.empty()) {
    rpc::tls::StoreOptions store;
    store.location = options.file;
    store.password_file = options.password_file;
    auto read = rpc::tls::PasswordOf(store);
    if (!read.ok()) return read.status();
    password = *std::move(read);
  }
  StoreFacts facts;
  auto key_store = rpc::tls::ParseKeyStore(options.file, *bytes, password);
  if (key_store.ok()) {
    facts.has_key = true;
    facts.certificates.push_back(certs::FactsOf(key_store->certificate.get()));
    for (const auto& each : key_store->chain) {
      facts.certificates.push_back(certs::FactsOf(each.get()));
    }
    return facts;
  }
  // A store without a key, or with an encrypted one, whose certificates can be read all the same.
  auto trust_store = rpc::tls::ParseTrustStore(options.file, *bytes, password);
  if (!trust_store.ok()) {
    // The command line is right.
    return absl::FailedPreconditionError(trust_store.status().message());
  }
  for (const auto& each : trust_store->certificates) {
    facts.certificates.push_back(certs::FactsOf(each.get()));
  }
  return facts;
}

int64_t DaysLeft(const CertificateFacts& facts, int64_t now_s) {
  const int64_t seconds = facts.ends_s - now_s;
  return seconds < 0 ? -1 : seconds / kSecondsInDay;
}

std::string Validity(const CertificateFacts& facts, int64_t now_s) {
  const std::string range =
      absl::StrCat(certs::TimeText(facts.starts_s), " to ", certs::TimeText(facts.ends_s));
  if (now_s < facts.starts_s) return range + ", NOT YET VALID";
  if (now_s > facts.ends_s) return range + ", EXPIRED";
  return absl::StrCat(range, ", ", DaysLeft(facts, now_s), " days left");
}

void Print(const StoreFacts& store, int64_t now_s) {
  for (size_t i = 0; i < store.certificates.size(); ++i) {
    const CertificateFacts& facts = store.certificates[i];
    const auto line = [](const char* name, const std::string& value) {
      std::printf("%-12s %s\n", name, Escape(value).c_str());
    };
    if (i > 0) std::printf("\n");
    line("subject", facts.subject);
    line("issuer", facts.issuer);
    if (!facts.names.empty()) line("names", absl::StrJoin(facts.names, ", "));
    line("use", facts.uses.empty() ? "neither server nor client" : absl::StrJoin(facts.uses, ", "));
    line("valid", Validity(facts, now_s));
    line("key", facts.key + (store.has_key && i == 0 ? ", and its private key is here" : ""));
    line("SHA-256", facts.fingerprint);
  }
}

void PrintJson(const StoreFacts& store, int64_t now_s) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CertificateFacts& facts : store.certificates) {
    list.push_back({{"subject", facts.subject},
                    {"issuer", facts.issuer},
                    {"names", facts.names},
                    {"uses", facts.uses},
                    {"not_before", certs::TimeText(facts.starts_s)},
                    {"not_after", certs::TimeText(facts.ends_s)},
                    {"days_left", DaysLeft(facts, now_s)},
                    {"key", facts.key},
                    {"fingerprint_sha256", facts.fingerprint}});
  }
  const nlohmann::ordered_json document = {{"has_private_key", store.has_key},
                                           {"certificates", list}};
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  std::printf("%s\n", document.dump(2, ' ', false, replace).c_str());
}

absl::Status RunShow(const Options& options, bool json) {
  auto store = Read(options);
  if (!store.ok()) return store.status();
  const int64_t now_s = std::time(nullptr);
  json ? PrintJson(*store, now_s) : Print(*store, now_s);
  if (options.days < 0) return absl::OkStatus();
  for (const CertificateFacts& facts : store->certificates) {
    if (now_s >= facts.starts_s && DaysLeft(facts, now_s) >= options.days) continue;
    return absl::FailedPreconditionError(absl::StrCat(options.file, ": the certificate of ",
                                                      facts.subject, " is not valid for ",
                                                      options.days, " more days; renew it"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddShowCommand(CommandLine* command_line, CLI::App* group) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      command_line->Add(group, "show", "Show the certificates in a PEM, PKCS12 or JKS store",
                        [=] { return RunShow(*options, command_line->global().json); });
  command->add_option("file", options->file, "The store")->required();
  command->add_option("--password-file", options->password_file,
                      "File with the password of the store");
  command
      ->add_option("--valid-for", options->days,
                   "Fail unless all certificates are valid for this many more days")
      ->check(CLI::Range(0, kDaysMax));
}

}  // namespace quorate::tools
