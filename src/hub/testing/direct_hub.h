#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/scheduler.h"
#include "hub/hub.h"
#include "hub/transport.h"
#include "json/write.h"
#include "kube/client.h"

namespace cadre::hub {

// A hub under a virtual clock, and one who may do everything with it.
class DirectHub : public testing::Test {
 protected:
  DirectHub()
      : hub_(scheduler_, random_, {.keep = [this](const auto&) -> Result<> {
               if (has_space_) return {};
               return Error{.code = Code::ResourceExhausted, .message = "no space"};
             }}) {
    hub_.furnish();
    scheduler_.runReady();
    client_ = directClient(scheduler_, [this] {
      return directTransport(scheduler_, hub_, "test", {"system:masters"});
    });
  }

  // What is said against it; empty: nothing.
  std::string send(const std::string& method, const std::string& target, const json::Value& body) {
    std::string said = "no answer";
    Pending sent = client_->request(method, target, body.isNull() ? "" : json::write(body),
                                    "application/json", [&](const Result<json::Value>& answer) {
                                      said = answer ? std::string() : answer.error().text();
                                    });
    scheduler_.advance(10s);
    return said;
  }

  FakeScheduler scheduler_;
  Random random_{1};
  bool has_space_ = true;  // to keep what is written
  Hub hub_;
  std::unique_ptr<kube::Client> client_;
};

}  // namespace cadre::hub
