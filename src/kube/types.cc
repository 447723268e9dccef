#include "kube/types.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace cadre::kube {

namespace {

enum : std::uint8_t {
  kOmitEmpty = 1,
  kOmitZero = 2,
  kPointer = 4,
  kPatchMerge = 8,
  kPatchReplace = 16,
  kPatchRetainKeys = 32,
};

// Names are positions in kNames, everything else is a position in its array: no pointers, so that
// the table is shared between processes and only read from the disk where it is looked at.
struct TypeRow {
  Form form;
  Relation relation;
  std::uint16_t element;  // a type; of a struct: in kStructs
  std::uint16_t keys;
};
struct StructRow {
  std::uint16_t name;
  std::uint16_t first_field, fields;
};
struct FieldRow {
  std::uint16_t name;
  std::uint16_t type;
  std::uint8_t number;
  std::uint8_t flags;
  std::uint16_t merge_key;
  std::uint16_t go_name;
};
struct KindRow {
  std::uint16_t group, version, kind;
  std::uint16_t type;
  bool protobuf;
};

#include "kube/types_table.h"

std::string_view nameAt(std::uint16_t at) {
  return {kNames + at + 1, static_cast<unsigned char>(kNames[at])};
}

const KindRow* findKind(std::string_view group, std::string_view version, std::string_view kind) {
  auto row = std::ranges::find_if(kKinds, [&](const KindRow& row) {
    return nameAt(row.kind) == kind && nameAt(row.group) == group && nameAt(row.version) == version;
  });
  return row == std::end(kKinds) ? nullptr : row;
}

std::span<const FieldRow> fieldsOf(const TypeRow& type) {
  if (type.form != Form::Struct) return {};
  const StructRow& row = kStructs[type.element];
  return {kFields + row.first_field, row.fields};
}

std::uint16_t position(const FieldRow& row) { return static_cast<std::uint16_t>(&row - kFields); }

}  // namespace

Type Type::of(std::string_view group, std::string_view version, std::string_view kind) {
  const KindRow* row = findKind(group, version, kind);
  return row ? Type(row->type) : Type();
}

Form Type::form() const { return *this ? kTypes[row_].form : Form::Any; }
Relation Type::relation() const { return *this ? kTypes[row_].relation : Relation::Granular; }

Type Type::element() const {
  bool has = form() == Form::List || form() == Form::Map;
  return has ? Type(kTypes[row_].element) : Type();
}

std::vector<Type::Key> Type::keys() const {
  std::vector<Key> out;
  if (!*this) return out;
  const std::uint16_t* at = kKeys + kTypes[row_].keys;
  for (std::uint16_t left = *at++; left > 0; --left, at += 2)
    out.push_back({nameAt(at[0]), nameAt(at[1])});
  return out;
}

std::string_view Type::name() const {
  return form() == Form::Struct ? nameAt(kStructs[kTypes[row_].element].name) : "";
}

std::optional<Field> Type::ownField(std::string_view name) const {
  if (!*this || name.empty()) return std::nullopt;
  auto rows = fieldsOf(kTypes[row_]);
  auto found = std::ranges::lower_bound(rows, name, {}, [](auto& row) { return nameAt(row.name); });
  if (found != rows.end() && nameAt(found->name) == name) return Field(position(*found));
  return std::nullopt;
}

std::optional<Field> Type::field(std::string_view name) const {
  if (auto own = ownField(name)) return own;
  if (!*this) return std::nullopt;
  for (const FieldRow& row : fieldsOf(kTypes[row_])) {
    if (row.name != 0) break;  // inline ones come first
    if (auto within = Type(row.type).field(name)) return within;
  }
  return std::nullopt;
}

std::optional<Field> Type::field(std::uint32_t number) const {
  if (!*this || number == 0) return std::nullopt;
  auto rows = fieldsOf(kTypes[row_]);
  auto found = std::ranges::find(rows, number, &FieldRow::number);
  if (found == rows.end()) return std::nullopt;
  return Field(position(*found));
}

std::size_t Type::fieldCount() const { return *this ? fieldsOf(kTypes[row_]).size() : 0; }
Field Type::fieldAt(std::size_t index) const {
  return Field(position(fieldsOf(kTypes[row_])[index]));
}

std::string_view Field::name() const { return nameAt(kFields[row_].name); }
Type Field::type() const { return Type(kFields[row_].type); }
std::uint32_t Field::number() const { return kFields[row_].number; }
bool Field::omitsEmpty() const { return kFields[row_].flags & kOmitEmpty; }
bool Field::omitsZero() const { return kFields[row_].flags & kOmitZero; }
bool Field::isPointer() const { return kFields[row_].flags & kPointer; }
bool Field::showsNull() const {
  if (omitsEmpty() || isInline()) return false;
  Form form = type().form();
  return isPointer() || form == Form::List || form == Form::Map || form == Form::Bytes;
}
bool Field::patchMerges() const { return kFields[row_].flags & kPatchMerge; }
bool Field::patchReplaces() const { return kFields[row_].flags & kPatchReplace; }
bool Field::patchRetainsKeys() const { return kFields[row_].flags & kPatchRetainKeys; }
std::string_view Field::patchMergeKey() const { return nameAt(kFields[row_].merge_key); }

std::string_view Field::goName() const { return nameAt(kFields[row_].go_name); }

std::vector<BuiltInKind> builtInKinds() {
  std::vector<BuiltInKind> out;
  for (const KindRow& row : kKinds)
    out.push_back({.gvk = {std::string(nameAt(row.group)), std::string(nameAt(row.version)),
                           std::string(nameAt(row.kind))},
                   .type = Type::of(nameAt(row.group), nameAt(row.version), nameAt(row.kind)),
                   .protobuf = row.protobuf});
  return out;
}

bool inProtobuf(std::string_view group, std::string_view version, std::string_view kind) {
  const KindRow* row = findKind(group, version, kind);
  return row && row->protobuf;
}

}  // namespace cadre::kube
