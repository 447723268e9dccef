#pragma once

#include <memory>
#include <optional>
#include <string>

#include "net/http_server.h"
#include "net/loop.h"

namespace cadre::node {

struct LogOptions {
  bool follow = false, timestamps = false;
  std::optional<std::int64_t> tail_lines, limit_bytes;
  std::optional<Time> since;
};

// Answers with what a container printed: the lines of FILE.1 and FILE. Follows it as long as it
// lives, or the client stays; never holds more than the client takes.
void sendLog(net::Loop& loop, const std::string& file, LogOptions options, Function<bool()> alive,
             std::shared_ptr<net::ServerRequest> request);

}  // namespace cadre::node
