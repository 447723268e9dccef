#pragma once

#include <string>

#include "base/result.h"
#include "net/loop.h"

namespace cadre::cli {

// Ends what a killed `cadre up` of that folder has left running; how many containers there were.
Result<std::size_t> endLeftovers(net::Loop& loop, const std::string& data);

}  // namespace cadre::cli
