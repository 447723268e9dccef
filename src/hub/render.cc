#include "hub/render.h"

#include "base/format.h"
#include "json/write.h"

namespace cadre::hub {
namespace {

constexpr std::string_view kMeta = "meta.k8s.io/v1";

std::string quoted(std::string_view text) { return json::write(json::Value(text)); }

json::Value metadataAlone(const json::Value& object) {
  return json::Object{
      {"apiVersion", kMeta}, {"kind", "PartialObjectMetadata"}, {"metadata", object["metadata"]}};
}

json::Value rowOf(const Kind& kind, const json::Value& object, Include include, Time now) {
  json::Value shown;
  if (include == Include::Metadata) shown = metadataAlone(object);
  if (include == Include::Object) shown = object;
  json::Object row{{"cells", kind.cells(object, now)}, {"object", std::move(shown)}};
  if (json::Array conditions = kind.rowConditions(object); !conditions.empty())
    row.set("conditions", std::move(conditions));
  return row;
}

json::Value columnsOf(const Kind& kind) {
  json::Array columns;
  for (const Kind::Column& column : kind.columns())
    columns.push_back(json::Object{{"name", column.name},
                                   {"type", column.type},
                                   {"format", column.format},
                                   {"description", column.description},
                                   {"priority", column.priority}});
  return columns;
}

json::Value metaOf(const ListMeta& meta) {
  json::Object object{{"resourceVersion", format("{}", meta.revision)}};
  if (!meta.next.empty()) object.set("continue", meta.next);
  if (meta.remaining > 0) object.set("remainingItemCount", meta.remaining);
  return object;
}

json::Value table(json::Value metadata, json::Value columns, json::Array rows) {
  return json::Object{{"apiVersion", kMeta},
                      {"kind", "Table"},
                      {"metadata", std::move(metadata)},
                      {"columnDefinitions", std::move(columns)},
                      {"rows", std::move(rows)}};
}

}  // namespace

json::Value valueOf(const Kind& kind, const Stored& state) {
  json::Value object = state.value();
  if (kind.differs(state.revision)) {
    kind.defaultAsStored(object);
    kind.asShown(object);
  }
  object.make("apiVersion") = kind.resource.apiVersion();
  object.make("kind") = kind.resource.kind;
  return object;
}

std::string renderObject(const Kind& kind, const Stored& state) {
  if (kind.differs(state.revision)) return json::write(valueOf(kind, state));
  return format(R"({{"kind":{},"apiVersion":{},{})", quoted(kind.resource.kind),
                quoted(kind.resource.apiVersion()), std::string_view(state.text).substr(1));
}

json::Value shownAs(const Kind& kind, json::Value object, const Form& form, Include include,
                    bool columns, Time now) {
  switch (form.as) {
    case Form::As::Object:
    case Form::As::Groups:  // of no object
      break;
    case Form::As::Metadata:
      return metadataAlone(object);
    case Form::As::Table:
      return table(json::Object{{"resourceVersion", object["metadata"]["resourceVersion"]}},
                   columns ? columnsOf(kind) : json::Value(), {rowOf(kind, object, include, now)});
  }
  return object;
}

std::string renderAs(const Kind& kind, const Stored& state, const Form& form, Include include,
                     bool columns, Time now) {
  if (form.as == Form::As::Object) return renderObject(kind, state);
  return json::write(shownAs(kind, valueOf(kind, state), form, include, columns, now));
}

std::string renderList(const Kind& kind, const std::vector<State>& items, const Form& form,
                       Include include, const ListMeta& meta, Time now) {
  if (form.as == Form::As::Table) {
    json::Array rows;
    for (const State& item : items) rows.push_back(rowOf(kind, valueOf(kind, *item), include, now));
    return json::write(table(metaOf(meta), columnsOf(kind), std::move(rows)));
  }
  bool whole = form.as == Form::As::Object;
  std::string list_kind = !whole                   ? "PartialObjectMetadataList"
                          : kind.list_kind.empty() ? kind.resource.kind + "List"
                                                   : kind.list_kind;
  std::string text =
      format(R"({{"kind":{},"apiVersion":{},"metadata":{},"items":[)", quoted(list_kind),
             quoted(whole ? kind.resource.apiVersion() : kMeta), json::write(metaOf(meta)));
  // The items of built-in lists do not repeat what they are.
  bool bare = whole && kind.type();
  for (const State& item : items) {
    if (text.back() != '[') text += ',';
    text += bare    ? item->text
            : whole ? renderObject(kind, *item)
                    : json::write(metadataAlone(item->value()));
  }
  return text + "]}";
}

}  // namespace cadre::hub
