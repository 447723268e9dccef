#pragma once

#include <string>

#include "json/value.h"

namespace cadre::node {

// The file beside the log of a run that its container may leave a message in.
std::string lastWordsFile(const std::string& log);
// Makes it, empty, for every user of the container.
void makeLastWordsFile(const std::string& log);

// What a container that has ended said there; else, if it failed and the container wants that, the
// end of its log. A few kilobytes at most.
std::string lastWordsOf(const json::Value& container, const std::string& log, bool failed);

}  // namespace cadre::node
