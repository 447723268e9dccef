#pragma once

#include <fmt/format.h>

namespace cadre {

// Text from a pattern: format("{} of {}", done, all). Until the compiler brings std::format.
using fmt::format;

}  // namespace cadre
