#pragma once

#include <string>
#include <vector>

namespace cadre::cli {

using Rows = std::vector<std::vector<std::string>>;

// Rows in columns, three spaces apart; the first row is the titles. Nothing in a cell moves the
// cursor or colours what follows.
std::string tableOf(const Rows& rows);

}  // namespace cadre::cli
