#pragma once

#include <string>
#include <vector>

#include "hub/kind.h"
#include "hub/objects.h"
#include "hub/request.h"

namespace cadre::hub {

// Objects as clients want them, as text. Pure.

// Which part of the object a row of a Table brings.
enum class Include { Metadata, Object, None };

struct ListMeta {
  std::int64_t revision = 0;
  std::string next = {};  // the token of the next page
  std::int64_t remaining = 0;
};

// A stored object in the version of that kind, as it is by today's definition.
json::Value valueOf(const Kind& kind, const Stored& state);
std::string renderObject(const Kind& kind, const Stored& state);
// The same in another form. `columns`: of a Table, whether they are named.
json::Value shownAs(const Kind& kind, json::Value object, const Form& form, Include include,
                    bool columns, Time now);
std::string renderAs(const Kind& kind, const Stored& state, const Form& form, Include include,
                     bool columns, Time now);
std::string renderList(const Kind& kind, const std::vector<State>& items, const Form& form,
                       Include include, const ListMeta& meta, Time now);

}  // namespace cadre::hub
