#pragma once

#include <map>
#include <vector>

#include "engine/engine.h"

namespace cadre::engine {

// The world as it would be: objects on paper, over another source or over nothing.
class Draft final : public Source {
 public:
  explicit Draft(Source* below = nullptr) : below_(below), there_(Observed::nothing()) {}
  // Over what there is, which its changes are changes of.
  Draft(Source& below, Observed there) : below_(&below), there_(std::move(there)) {}

  // It is so, whatever is below.
  void put(const Ref& ref, json::Value object) { objects_[ref] = std::move(object); }
  const json::Value& at(const Ref& ref) const { return objects_.at(ref); }

  // What plans say, and what is done for that, when all goes well: statuses are written and
  // children made, Deployments that change are rolled out, until nothing changes any more. Begins
  // with these objects; `readers` tells who else looks at one that changed. Nothing when something
  // that a plan looks at is not known yet.
  struct Planned {
    Ref ref;
    Plan plan;
    std::vector<Write> writes;  // all but those of statuses, sooner or later
  };
  std::optional<std::vector<Planned>> settle(const std::vector<Served>& kinds,
                                             std::vector<Ref> refs, Time now,
                                             const Function<std::vector<Ref>(const Ref&)>& readers);

  State state(const Ref& ref) override;
  State state(const kube::Resource& resource) override;
  std::optional<json::Value> find(const Ref& ref) override;
  std::vector<kube::ObjectKey> keys(const kube::Resource& resource, const Index& index,
                                    const std::string& value) override;
  Fact observe(const Observation& observation) override;

 private:
  std::vector<Write> changes(const Ref& ref, json::Value object, Plan plan);
  bool lay(const Ref& ref, json::Value object);
  bool lay(const Write& write);

  Source* const below_;
  const Observed there_;
  std::map<Ref, json::Value> objects_;  // null: it is gone
};

}  // namespace cadre::engine
