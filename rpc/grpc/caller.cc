// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/caller.h"

#include <grpc/grpc_security_constants.h>
#include <openssl/pem.h>

#include <algorithm>
#include <climits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/strings.h"
#include "rpc/proto/credentials.h"
#include "rpc/proto/errors.h"
#include "rpc/tls/openssl.h"
#include "rpc/tls/subject.h"

namespace quorate::rpc {
namespace {

// The name of the metadata with credentials, as in HTTP.
constexpr char kAuthorization[] = "authorization";
// The subjects that each thread remembers. A client's calls over a connection all have the same
// certificate.
constexpr size_t kSubjectsMax = 64;

// Returns the status for the caller, with the error of quorate.v1.
absl::Status ToCaller(const absl::Status& status) {
  const v1::ErrorCode error = absl::IsUnauthenticated(status) ? v1::ERROR_CODE_AUTH_FAILED
                              : absl::IsUnavailable(status)   ? v1::ERROR_CODE_UNAVAILABLE
                                                              : v1::ERROR_CODE_NO_AUTH;
  return v1::ToStatus(error, ToStd(status.message()));
}

// Returns all values of the metadata with this key.
std::vector<std::string_view> ValuesOf(const grpc::ServerContextBase& context, const char* key) {
  std::vector<std::string_view> values;
  const auto [begin, end] = context.client_metadata().equal_range(key);
  for (auto at = begin; at != end; ++at) values.emplace_back(at->second.data(), at->second.size());
  return values;
}

}  // namespace

std::string SubjectOfPem(std::string_view pem) {
  const tls::ErrorScope errors;
  const tls::BioPtr bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(std::min<size_t>(pem.size(), INT_MAX))));
  if (bio == nullptr) return "";
  const tls::CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  return certificate == nullptr ? "" : tls::SubjectOf(certificate.get());
}

std::string SubjectOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> authenticated = context.auth_context();
  if (authenticated == nullptr) return "";
  // A certificate that the server has asked for is valid if it is there (server_certificates.h).
  const std::vector<grpc::string_ref> pems =
      authenticated->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pems.size() != 1) return "";
  const std::string_view pem(pems[0].data(), pems[0].size());
  thread_local StringMap<std::string> subjects;
  const auto known = subjects.find(pem);
  if (known != subjects.end()) return known->second;
  if (subjects.size() >= kSubjectsMax) subjects.clear();
  return subjects.emplace(std::string(pem), SubjectOfPem(pem)).first->second;
}

CallerProof ProofOf(const grpc::ServerContextBase& context, bool has_certificates,
                    Administrators* administrators) {
  CallerProof proof;
  proof.peer = context.peer();
  const std::string& peer = proof.peer;
  Principal& principal = proof.principal;
  principal.address = AddressOf(peer);
  principal.origin = peer.starts_with("unix:") ? Principal::Origin::kUnixSocket
                                               : OriginOfAddress(principal.address);
  if (has_certificates) principal.subject = SubjectOf(context);
  const std::vector<std::string_view> authorizations = ValuesOf(context, kAuthorization);
  if (!authorizations.empty()) {
    const absl::Status proved =
        authorizations.size() == 1
            ? administrators->Authenticate(authorizations[0], &principal)
            : administrators->RefuseCredentials("a call may have the metadata `authorization` once",
                                                principal);
    if (!proved.ok()) {
      proof.refused = ToCaller(proved);
      proof.refused_key = kAuthorization;
      return proof;
    }
  }
  auto credentials = v1::ParseCredentials(ValuesOf(context, v1::kCredentialKey));
  if (credentials.ok()) {
    proof.credentials = *std::move(credentials);
  } else {
    proof.refused = credentials.status();
    proof.refused_key = v1::kCredentialKey;
  }
  return proof;
}

absl::StatusOr<Principal> AdmitCall(Operation operation, const grpc::ServerContextBase& context,
                                    Administrators* administrators) {
  CallerProof proof = ProofOf(context, /*has_certificates=*/true, administrators);
  if (!proof.refused.ok()) return proof.refused;
  for (const v1::Credential& credential : proof.credentials) {
    const absl::Status proved =
        credential.scheme() == "digest"
            ? administrators->AddDigest(credential.secret(), &proof.principal)
            : administrators->RefuseCredentials(
                  "the only scheme of the metadata `quorate-credential` is digest",
                  proof.principal);
    if (!proved.ok()) return ToCaller(proved);
  }
  const absl::Status admitted = administrators->Check(operation, proof.principal);
  if (!admitted.ok()) return ToCaller(admitted);
  // Anybody may make some calls: they admit nobody.
  if (InfoOf(operation).requirement == Requirement::kAdministrator || proof.principal.has_proof()) {
    administrators->OnAdmitted(proof.peer);
  }
  return std::move(proof.principal);
}

}  // namespace quorate::rpc
