// The rules for volumes, and for what makes and attaches them.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/strings.h"
#include "hub/builtin_rules.h"
#include "kube/quantity.h"

namespace cadre::hub {

namespace {

using json::Value;

void checkAccessModes(const At& modes, std::string_view none) {
  if (modes.isEmpty()) modes.required(none);
  bool alone = false, others = false;
  for (const At& mode : modes.items()) {
    modes.with(*mode).oneOf({"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"});
    (mode.text() == "ReadWriteOncePod" ? alone : others) = true;
  }
  if (alone && others) modes.forbidden("may not use ReadWriteOncePod with other access modes");
}

void checkSize(const At& size) {
  auto quantity = kube::Quantity::fromJson(*size);
  if (quantity && *quantity <= kube::Quantity())
    size.invalidText(quantity->text(), "must be greater than zero");
}

// Of a claim that is bound to a volume the size may change; everything else stays as it was, but
// for what is given once.
void checkClaimUpdate(const At& object, const Value& old) {
  At spec = object["spec"];
  Value now = *spec, before = old["spec"];
  auto passOver = [&](std::string_view name) {
    for (Value* one : {&now, &before}) one->makeObject().erase(name);
  };
  for (std::string_view name : {"volumeName", "storageClassName"})
    if (before[name].string().empty()) passOver(name);
  if (object["status"]["phase"].text() == "Bound") {
    passOver("volumeAttributesClassName");
    for (Value* one : {&now, &before})
      one->make("resources").make("requests").makeObject().erase("storage");
  }
  if (now != before)
    spec.forbidden(
        "spec is immutable after creation except resources.requests and volumeAttributesClassName "
        "for bound claims");
  // A claim whose volume did not grow as asked may ask for less than that again.
  At size = spec["resources"]["requests"]["storage"];
  auto wanted = kube::Quantity::fromJson(*size);
  auto asked = kube::Quantity::fromJson(old["spec"]["resources"]["requests"]["storage"]);
  auto given = kube::Quantity::fromJson(old["status"]["capacity"]["storage"]);
  if (wanted && asked && given && *wanted < *asked && *wanted <= *given)
    size.forbidden("field can not be less than status.capacity");
  spec["volumeMode"].as("volumeMode").immutable(old["spec"]["volumeMode"]);
}

void checkDataSource(const At& source) {
  if (!source.isThere()) return;
  for (std::string_view name : {"name", "kind"}) source[name].given();
  At group = source["apiGroup"], kind = source["kind"];
  if (!group.isEmpty())
    group.all(subdomainProblems(group.text()));
  else if (kind.text() != "PersistentVolumeClaim")
    source.invalidText(kind.text(),
                       "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
}

// Two names for one field.
void checkDataSources(const At& spec) {
  At source = spec["dataSource"], reference = spec["dataSourceRef"];
  checkDataSource(source);
  checkDataSource(reference);
  // The server shows nothing of it.
  if (source.isThere() && reference.isThere() && *source != *reference)
    spec.invalidShown("{}", "must match dataSourceRef");
}

}  // namespace

void checkClaimSpec(const At& spec) {
  checkAccessModes(spec["accessModes"], "at least 1 access mode is required");
  // The server leaves out a step here.
  At size = spec["resources"].key("storage").with((*spec["resources"])["requests"]["storage"]);
  if (!size.isThere())
    size.required();
  else
    checkSize(size);
  checkSelector(spec["selector"]);
  At storage_class = spec["storageClassName"];
  if (!storage_class.isEmpty()) storage_class.all(subdomainProblems(storage_class.text()));
  spec["volumeMode"].oneOf({"Block", "Filesystem"});
  checkDataSources(spec);
}

void checkClaim(const At& object, const Value& old) {
  checkClaimSpec(object["spec"]);
  if (!old.isNull()) checkClaimUpdate(object, old);
}

namespace {

// In the order in which the server looks for them; of several the first is the one that counts.
constexpr std::string_view kVolumeSources[] = {"hostPath",
                                               "gcePersistentDisk",
                                               "awsElasticBlockStore",
                                               "glusterfs",
                                               "flocker",
                                               "nfs",
                                               "rbd",
                                               "quobyte",
                                               "cephfs",
                                               "iscsi",
                                               "cinder",
                                               "fc",
                                               "flexVolume",
                                               "azureFile",
                                               "vsphereVolume",
                                               "photonPersistentDisk",
                                               "portworxVolume",
                                               "azureDisk",
                                               "scaleIO",
                                               "local",
                                               "storageos",
                                               "csi"};

void checkSecretReference(const At& ref) {
  if (!ref.isThere()) return;
  if (ref["name"].given()) ref["name"].all(subdomainProblems(ref["name"].text()));
  if (ref["namespace"].given()) ref["namespace"].all(labelProblems(ref["namespace"].text()));
}

void checkVolumeSources(const At& spec) {
  bool counted = false;
  for (std::string_view name : kVolumeSources) {
    At source = spec[name];
    if (!source.isThere()) continue;
    if (counted) {
      source.forbidden("may not specify more than 1 volume type");
      continue;
    }
    counted = true;
    checkSource(spec, name);
    if (name == "csi") {
      source["volumeHandle"].given();
      for (std::string_view ref : {"controllerPublishSecretRef", "controllerExpandSecretRef",
                                   "nodePublishSecretRef", "nodeExpandSecretRef"})
        checkSecretReference(source[ref]);
    }
    if (name == "local" && source["path"].given())
      source["path"].all(backstepProblems(source["path"].text()));
    if (name == "local" && !spec["nodeAffinity"].isThere())
      spec["nodeAffinity"].required("Local volume requires node affinity");
  }
  if (!counted) spec.required("must specify a volume type");
}

// Labels of nodes have got new names; a volume may follow them.
Value withNewLabels(Value affinity) {
  static const std::map<std::string_view, std::string_view> kNames = {
      {"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
      {"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
      {"beta.kubernetes.io/os", "kubernetes.io/os"},
      {"beta.kubernetes.io/arch", "kubernetes.io/arch"},
      {"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"}};
  for (Value& term : affinity.make("required").make("nodeSelectorTerms").makeArray()) {
    if (!term["matchExpressions"].isArray()) continue;
    for (Value& one : term.make("matchExpressions").makeArray())
      if (auto found = kNames.find(one["key"].string()); found != kNames.end())
        one.make("key") = found->second;
  }
  return affinity;
}

void checkVolumeUpdate(const At& spec, const Value& old) {
  auto sourcesOf = [](const Value& spec) {
    json::Object sources;
    for (std::string_view name : kVolumeSources)
      if (!spec[name].isNull()) sources.set(name, spec[name]);
    return Value(std::move(sources));
  };
  Value now = sourcesOf(*spec), before = sourcesOf(old);
  constexpr std::string_view kGivenOnce = "controllerExpandSecretRef";
  if (before["csi"].isObject() && now["csi"].isObject() && before["csi"][kGivenOnce].isNull())
    now.make("csi").makeObject().erase(kGivenOnce);
  if (now != before)
    spec.as("spec.persistentvolumesource")
        .forbidden("spec.persistentvolumesource is immutable after creation");
  spec["volumeMode"].as("volumeMode").immutable(old["volumeMode"]);
  At affinity = spec["nodeAffinity"].as("nodeAffinity");
  const Value& bound = old["nodeAffinity"];
  if (!bound.isNull() && *affinity != bound && *affinity != withNewLabels(bound))
    affinity.invalid("field is immutable, except for updating from beta label to GA");
}

}  // namespace

void checkVolume(const At& object, const Value& old) {
  At spec = object["spec"], capacity = spec["capacity"], affinity = spec["nodeAffinity"];
  checkAccessModes(spec["accessModes"], "");
  if (capacity.isEmpty()) capacity.required();
  if (!capacity->object().contains("storage") || capacity->object().size() > 1)
    capacity.unsupported({"storage"});
  for (const auto& [name, value] : capacity->object()) checkSize(capacity.key(name));
  spec["persistentVolumeReclaimPolicy"].oneOf({"Delete", "Recycle", "Retain"});
  if (affinity.isThere() && !affinity["required"].isThere())
    affinity["required"].required("must specify required node constraints");
  else
    checkNodeSelector(affinity["required"]);
  checkVolumeSources(spec);
  At storage_class = spec["storageClassName"];
  if (!storage_class.isEmpty()) storage_class.all(subdomainProblems(storage_class.text()));
  spec["volumeMode"].oneOf({"Block", "Filesystem"});
  if (!old.isNull()) checkVolumeUpdate(spec, old["spec"]);
}

void checkAttachment(const At& object, const Value& old) {
  At spec = object["spec"], source = spec["source"], volume = source["persistentVolumeName"];
  if (!old.isNull()) return spec.immutable(old["spec"]);
  constexpr std::string_view kOne =
      "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
  spec["attacher"].given();
  if (!volume.isThere() && !source["inlineVolumeSpec"].isThere())
    source.required(kOne);
  else if (volume.isThere() && source["inlineVolumeSpec"].isThere())
    source.forbidden(kOne);
  else if (volume.isThere() && volume.isEmpty())
    volume.required("must specify non empty persistentVolumeName");
  spec["nodeName"].all(subdomainProblems(spec["nodeName"].text()));
  // The server asks twice.
  spec["attacher"].given();
  spec["attacher"].fits(63);
  spec["attacher"].all(subdomainProblems(lower(spec["attacher"].text())));
  if (volume.isThere()) volume.all(subdomainProblems(volume.text()));
}

void checkStorageDriver(const At& object, const Value& old) {
  At spec = object["spec"], modes = spec["volumeLifecycleModes"];
  spec["fsGroupPolicy"].oneOf({"File", "None", "ReadWriteOnceWithFSType"});
  std::set<std::string> audiences;
  for (const At& request : spec["tokenRequests"].items()) {
    At audience = request["audience"], seconds = request["expirationSeconds"];
    if (!audiences.insert(audience.text()).second)
      audience.duplicate();
    else
      checkTokenLife(seconds);
  }
  for (const At& mode : modes.items()) modes.with(*mode).oneOf({"Persistent", "Ephemeral"});
  if (old.isNull()) return;
  // The server calls the first one so.
  spec["attachedRequired"].with(*spec["attachRequired"]).immutable(old["spec"]["attachRequired"]);
  modes.immutable(old["spec"]["volumeLifecycleModes"]);
}

namespace {

void checkTopologies(const At& topologies) {
  std::set<std::map<std::string, std::set<std::string>>> seen = {{}};
  for (const At& topology : topologies.items()) {
    std::map<std::string, std::set<std::string>> term;
    At expressions = topology["matchLabelExpressions"];
    for (const At& one : expressions.items()) {
      At key = one["key"];
      std::set<std::string> values;
      one["values"].given();
      for (const At& value : one["values"].items())
        if (!values.insert(value.text()).second) value.duplicate();
      for (const std::string& problem : qualifiedProblems(key.text()))
        key.invalidText(key.text(), problem);
      if (!term.emplace(key.text(), std::move(values)).second) key.duplicate();
    }
    if (!seen.insert(std::move(term)).second) expressions.duplicateShown("\"\"");
  }
}

}  // namespace

void checkStorageClass(const At& object, const Value& old) {
  At provisioner = object["provisioner"];
  if (provisioner.given())
    for (const std::string& problem : qualifiedProblems(lower(provisioner.text())))
      provisioner.invalidText(lower(provisioner.text()), problem);
  if (object["parameters"]->object().contains(""))
    object["parameters"].invalidText("", "field can not be empty.");
  checkTopologies(object["allowedTopologies"]);
  if (At policy = object["reclaimPolicy"]; !policy.isEmpty()) policy.oneOf({"Delete", "Retain"});
  object["volumeBindingMode"].oneOf({"Immediate", "WaitForFirstConsumer"});
  if (old.isNull()) return;
  for (std::string_view field : {"parameters", "provisioner", "reclaimPolicy"})
    if (*object[field] != old[field])
      object[field].forbidden(format("updates to {} are forbidden.", field));
  object["volumeBindingMode"].immutable(old["volumeBindingMode"]);
}

}  // namespace cadre::hub
