#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cadre::node {

// An image of this program alone, for an engine: the program, and the few libraries that the
// system gives it. Nothing is fetched for it.
struct OwnImage {
  std::string tag;  // another one for each build of the program
  std::string program = "/cadre";

  std::string reference() const { return std::string(kName) + ":" + tag; }
  static constexpr std::string_view kName = "cadre-own";
};

Result<OwnImage> describeOwnImage(const std::string& program);
// Its files, as a tar; as large as the program.
Result<std::string> packOwnImage(const OwnImage& image, const std::string& program);

}  // namespace cadre::node
