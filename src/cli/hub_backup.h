#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/http_server.h"
#include "net/loop.h"
#include "store/log.h"

namespace cadre::cli {

// A backup of the log as the answer to a request, made in a file that is gone again at once: in the
// hub's folder, or where temporary files go if there is no space.
void sendBackup(net::Loop& loop, const store::Log& log, const std::string& data,
                std::shared_ptr<net::ServerRequest> request);

// All objects of the hub of a folder into one file; asks the hub if it runs.
Result<store::Counts> copyObjects(const std::string& data, const std::string& file);

}  // namespace cadre::cli
