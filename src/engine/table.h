#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/function.h"
#include "engine/object.h"
#include "json/pack.h"

namespace cadre::engine {

// The objects of one kind that are known, whole but packed, and found by name or by index. Filled
// by a watch, and by the answers to our own writes, which are newer: what is older than what is
// held, or than what was told of something that is gone, is passed over. One thread.
class Table {
 public:
  struct Change {
    const kube::ObjectKey& key;
    const json::Value* object;                                 // null: it is gone
    std::vector<std::pair<std::string_view, std::string>> at;  // index and value, before or after
  };

  explicit Table(std::vector<Index> indexes, Function<void(const Change&)> changed);

  // A picture is drawn anew, of one namespace or of all: what is not put into it until its end and
  // is not newer than it is gone. Several may be drawn at once.
  std::uint32_t begin();
  void end(std::uint32_t picture, std::string_view version, std::string_view ns = {});
  // Without a picture: the answer to a write.
  void put(const json::Value& object, std::uint32_t picture = 0);
  void drop(const json::Value& object);
  // The answer to a delete.
  void drop(const kube::ObjectKey& key);

  bool contains(const kube::ObjectKey& key) const { return objects_.contains(key); }
  bool contains(const kube::ObjectKey& key, std::string_view index, const std::string& value) const;
  std::optional<json::Value> find(const kube::ObjectKey& key) const;
  std::vector<kube::ObjectKey> keys(std::string_view index, const std::string& value) const;
  std::vector<kube::ObjectKey> keys() const;
  std::size_t size() const { return objects_.size(); }

 private:
  struct Held {
    json::Packed object;
    std::string version;
    std::vector<std::vector<std::string>> at;  // per index
    std::uint32_t picture = 0;
  };
  using Objects = std::map<kube::ObjectKey, Held>;

  const std::set<kube::ObjectKey>& at(std::string_view index, const std::string& value) const;
  void erase(Objects::iterator held);
  void told(std::string_view ns, std::string_view version);
  void leave(const kube::ObjectKey& key, Held& held, Change& change);

  const std::vector<Index> indexes_;
  const Function<void(const Change&)> changed_;
  json::Packer packer_;
  Objects objects_;
  std::vector<std::map<std::string, std::set<kube::ObjectKey>>> found_;  // per index
  std::map<std::string, std::string, std::less<>> told_;  // the newest version, per namespace or *
  std::uint32_t pictures_ = 0;
};

}  // namespace cadre::engine
