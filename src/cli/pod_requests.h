#pragma once

#include <filesystem>

#include "hub/request.h"
#include "json/value.h"
#include "net/http_server.h"
#include "node/streams.h"

namespace cadre::cli {

struct PodServer {
  net::Loop& loop;
  std::filesystem::path data;  // of `cadre up`
  const node::Runtime& runtime;
  node::Streams& streams;
};

// What is asked of a pod that runs here: its log, or to talk with it.
void answerForPod(const PodServer& server, const hub::Asked& asked, const json::Value& pod,
                  std::shared_ptr<net::ServerRequest> request);

}  // namespace cadre::cli
