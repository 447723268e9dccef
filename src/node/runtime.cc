#include "node/runtime.h"

#include "base/format.h"
#include "base/strings.h"

namespace cadre::node {

Result<> checkUser(const RunOrder& order, std::string_view image_user) {
  if (!order.is_never_root || (order.user && *order.user != 0)) return {};
  auto forbidden = [](std::string message) {
    return Error{.code = Code::Forbidden, .message = std::move(message)};
  };
  if (order.user) return forbidden("container's runAsUser breaks non-root policy: it is 0");
  std::string_view user = cut(image_user, ":").first;
  if (user.empty() || user == "0" || user == "root")
    return forbidden("container has runAsNonRoot and image will run as root (give it a runAsUser)");
  if (parseInt(user)) return {};
  return forbidden(
      format("container has runAsNonRoot and image has non-numeric user ({}), cannot verify user "
             "is non-root: give it a runAsUser",
             user));
}

}  // namespace cadre::node
