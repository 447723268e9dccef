#pragma once

#include <memory>

#include "hub/hub.h"
#include "kube/client.h"
#include "net/http.h"

namespace cadre::hub {

// A client's way to a hub in the same process: no socket, no thread. Requests and answers cross in
// tasks of the scheduler, so that neither runs inside of the other. `user` is who asks, by a
// certificate that needs no proof.
std::unique_ptr<net::HttpClient> directTransport(Scheduler& scheduler, Hub& hub, std::string user,
                                                 std::vector<std::string> groups);

// A client over ways such as that one: each is asked for twice, for requests and for watches.
std::unique_ptr<kube::Client> directClient(Scheduler& scheduler,
                                           const Function<std::unique_ptr<net::HttpClient>()>& way,
                                           kube::ClientOptions options = {});

}  // namespace cadre::hub
