#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/scheduler.h"
#include "kube/config.h"
#include "net/loop.h"

namespace cadre::kube {

// Who we are, asked anew for each request, because tokens and certificates rotate. Belongs to its
// loop's thread.
class Credentials {
 public:
  struct Identity {
    std::string authorization;  // the header's value; empty when there is none
    // A client certificate that did not come with the config; connections must be made with it.
    std::string certificate, key;
  };

  virtual ~Credentials() = default;
  // Calls back at once where nothing has to be fetched. Dropping the Pending only drops the
  // callback.
  virtual Pending get(Function<void(Result<Identity>)> done) = 0;
  // The server did not accept this one (401). Says whether asking again may give another.
  virtual bool refused(const Identity& identity) = 0;
};

// As the config says: a fixed token or password, a token file that is read again every minute (and
// kept when it vanishes), or an exec plugin (one process at a time, cached until it expires).
// Processes run on the loop; what is old is by the clock.
std::unique_ptr<Credentials> makeCredentials(net::Loop& loop, const Clock& clock,
                                             const Config& config,
                                             std::map<std::string, std::string> environment,
                                             Logger& logger);

}  // namespace cadre::kube
