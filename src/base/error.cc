#include "base/error.h"

namespace cadre {

std::string_view codeName(Code code) {
  switch (code) {
    case Code::Cancelled:
      return "Cancelled";
    case Code::InvalidArgument:
      return "InvalidArgument";
    case Code::NotFound:
      return "NotFound";
    case Code::AlreadyExists:
      return "AlreadyExists";
    case Code::Conflict:
      return "Conflict";
    case Code::Gone:
      return "Gone";
    case Code::Unauthenticated:
      return "Unauthenticated";
    case Code::Forbidden:
      return "Forbidden";
    case Code::ResourceExhausted:
      return "ResourceExhausted";
    case Code::DeadlineExceeded:
      return "DeadlineExceeded";
    case Code::Unavailable:
      return "Unavailable";
    case Code::Unimplemented:
      return "Unimplemented";
    case Code::DataLoss:
      return "DataLoss";
    case Code::Internal:
      return "Internal";
  }
  return "Internal";
}

std::string Error::text() const {
  std::string out = message;
  for (const Error* inner = cause.get(); inner; inner = inner->cause.get()) {
    out += ": ";
    out += inner->message;
  }
  return out;
}

Error Error::context(std::string_view doing) const& { return Error(*this).context(doing); }

Error Error::context(std::string_view doing) && {
  Error outer{.code = code,
              .message = std::string(doing),
              .reason = reason,
              .retry_after = retry_after,
              .details = std::move(details)};
  outer.cause = std::make_shared<const Error>(std::move(*this));
  return outer;
}

}  // namespace cadre
