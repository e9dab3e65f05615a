// SPDX-License-Identifier: Apache-2.0

#include "tools/backup/backup_stream.h"

#include "rpc/proto/errors.h"

namespace quorate::tools {

BackupStream::BackupStream(ClusterClient* client, const v1::BackupRequest& request)
    : request_(request) {
  client->Authorize(&context_);
  client->stub()->async()->Backup(&context_, &request_, &reader_);
  reader_.StartRead(&reader_.incoming);
  reader_.StartCall();
}

BackupStream::~BackupStream() {
  context_.TryCancel();
  std::unique_lock<std::mutex> lock(reader_.mutex);
  reader_.changed.wait(lock, [this] { return reader_.ended; });
}

void BackupStream::Reader::OnReadDone(bool ok) {
  // The stream has ended: OnDone follows.
  if (!ok) return;
  const std::lock_guard<std::mutex> lock(mutex);
  read = true;
  changed.notify_one();
}

void BackupStream::Reader::OnDone(const grpc::Status& how) {
  const std::lock_guard<std::mutex> lock(mutex);
  ended = true;
  status = how;
  changed.notify_one();
}

absl::StatusOr<bool> BackupStream::Next(v1::BackupResponse* response,
                                        std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(reader_.mutex);
  const bool in_time =
      reader_.changed.wait_for(lock, timeout, [this] { return reader_.read || reader_.ended; });
  if (!in_time) return absl::DeadlineExceededError("the member does not send anything");
  if (reader_.read) {
    reader_.read = false;
    response->Swap(&reader_.incoming);
    lock.unlock();
    reader_.StartRead(&reader_.incoming);
    return true;
  }
  if (!reader_.status.ok()) return v1::FromGrpc(reader_.status);
  return false;
}

}  // namespace quorate::tools
