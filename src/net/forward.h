#pragma once

#include <memory>
#include <string>

#include "net/http_server.h"
#include "net/relay.h"

namespace cadre::net {

struct ForwardOptions {
  Place to;
  std::string name;  // of who is there, for people
  std::string target;
  Headers headers;  // as endToEnd() leaves them, and what is to be added
  Duration connect_timeout = 5s;
  Duration idle_timeout = 1h;  // without a byte in either direction
};

// Passes a request on over a connection of its own, and the answer back, each body as it comes and
// at the pace of whoever takes it; also a WebSocket. Where there is no answer the client gets 502
// or 504 and why; where it breaks off, the client's connection is cut. When the client goes, so
// does the request. `done` comes once, not from inside. Dropping the Pending cuts both connections.
Pending forward(Loop& loop, std::shared_ptr<StreamedRequest> request, ForwardOptions options,
                Function<void()> done);

// Without those that concern only the connection they came on (RFC 9110, 7.6.1), and without those
// that say how long a body is: forward() says it anew.
Headers endToEnd(const Headers& headers);

}  // namespace cadre::net
