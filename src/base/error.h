#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace cadre {

// What kind of failure it is: enough to decide what to do next, without reading the text.
enum class Code {
  Cancelled,          // the caller gave up
  InvalidArgument,    // the input is wrong and stays wrong: fix it
  NotFound,           //
  AlreadyExists,      //
  Conflict,           // someone else changed it meanwhile, or owns the field
  Gone,               // that revision is no longer there: start again from the present
  Unauthenticated,    // who are you?
  Forbidden,          // you may not
  ResourceExhausted,  // too many, too large, too often; retry_after may say when
  DeadlineExceeded,   // no answer in time; it may have happened all the same
  Unavailable,        // nobody there, or there but not able now: worth another try
  Unimplemented,      // the peer does not do this
  DataLoss,           // what came is cut off or not what it claims to be
  Internal,           // a defect, here or at the peer
};

std::string_view codeName(Code code);

// One thing wrong at one place in the input: Kubernetes calls these causes.
struct Detail {
  std::string field;   // "spec.replicas", empty where there is no one field
  std::string reason;  // "FieldValueInvalid", "FieldManagerConflict", ...
  std::string message;

  bool operator==(const Detail&) const = default;
};

// A failure: what, in a word that programs compare (code, reason) and in a sentence that people
// read. A value; copying it is cheap enough for the failing path.
struct Error {
  Code code = Code::Internal;
  std::string message;
  std::string reason = {};  // Kubernetes reason ("AlreadyExists") where one is known
  std::optional<Duration> retry_after = std::nullopt;  // what the peer asked us to wait
  std::vector<Detail> details = {};
  std::shared_ptr<const Error> cause = nullptr;

  // The whole chain as one line: "listing agents: GET https://...: connection refused".
  std::string text() const;

  // The same failure seen from further out: code, reason, retry_after and details stay.
  Error context(std::string_view doing) const&;
  Error context(std::string_view doing) &&;
};

}  // namespace cadre
