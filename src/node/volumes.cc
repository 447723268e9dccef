#include "node/volumes.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/strings.h"
#include "json/texts.h"
#include "kube/meta.h"
#include "kube/names.h"
#include "node/files.h"

namespace cadre::node {
namespace {

namespace fs = std::filesystem;
using json::Value;

Error wrong(std::string message) {
  return {.code = Code::InvalidArgument, .message = std::move(message)};
}

Result<> makeFolder(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return wrong(format("{} cannot be made: {}", path.string(), code.message()));
  return {};
}

Result<> writeText(const fs::path& path, std::string_view text, unsigned mode) {
  CADRE_TRY(makeFolder(path.parent_path()));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file.flush()) return wrong(format("{} cannot be written: is the disk full?", path.string()));
  std::error_code ignored;
  fs::permissions(path, static_cast<fs::perms>(mode), ignored);
  return {};
}

bool isSame(const fs::path& folder, const std::map<std::string, FileOf>& files) {
  std::size_t there = 0;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    there += entry.is_regular_file(ignored) ? 1 : 0;
  return there == files.size() && std::ranges::all_of(files, [&](const auto& one) {
           return fs::exists(folder / one.first, ignored) &&
                  readText(folder / one.first) == one.second.text;
         });
}

// All of them at once: `..data` leads to the newest, and the names of the volume lead through it.
Result<> writeAtOnce(const fs::path& volume, const std::map<std::string, FileOf>& files) {
  std::error_code code;
  fs::path link = volume / "..data";
  fs::path old = fs::read_symlink(link, code);
  if (!code && isSame(volume / old, files)) return {};
  int number = 0;
  while (fs::exists(volume / format("..{}", number), code)) ++number;
  std::string name = format("..{}", number);
  CADRE_TRY(makeFolder(volume / name));
  for (const auto& [path, file] : files)
    CADRE_TRY(writeText(volume / name / path, file.text, file.mode));
  fs::remove(volume / "..data_new", code);
  fs::create_symlink(name, volume / "..data_new", code);
  fs::rename(volume / "..data_new", link, code);
  if (code) return wrong(format("{} cannot be replaced: {}", link.string(), code.message()));
  std::set<std::string> tops;
  for (const auto& [path, file] : files) tops.insert(std::string(cut(path, "/").first));
  for (const std::string& top : tops)
    if (!fs::is_symlink(volume / top, code))
      fs::create_symlink("..data/" + top, volume / top, code);
  for (const auto& entry : fs::directory_iterator(volume, code))
    if (std::string top = entry.path().filename(); !top.starts_with("..") && !tops.contains(top))
      fs::remove(entry.path(), code);
  if (!old.empty()) fs::remove_all(volume / old, code);
  return {};
}

// A place within a volume, which no link and no ".." may leave.
Result<std::string> within(const std::string& volume, const std::string& below) {
  if (below.empty()) return volume;
  fs::path path = fs::path(volume) / fs::path(below).relative_path();
  std::error_code code;
  if (!fs::exists(path, code)) CADRE_TRY(makeFolder(path));
  fs::path real = fs::canonical(path, code), root = fs::canonical(volume, code);
  fs::path relative = real.lexically_relative(root);
  if (code || relative.empty() || *relative.begin() == "..")
    return wrong(format("the path {} leaves its volume", kube::inQuotes(below)));
  return real.string();
}

// The group that all containers of a pod are in has a share in its volumes, and in what comes into
// them. Only root can do that.
void giveTo(const Value& pod, const fs::path& path) {
  const Value& group = pod["spec"]["securityContext"]["fsGroup"];
  struct stat about{};
  if (!group.isInteger() || lstat(path.c_str(), &about) != 0 ||
      lchown(path.c_str(), static_cast<uid_t>(-1), static_cast<gid_t>(group.integer())) != 0)
    return;
  if (S_ISDIR(about.st_mode)) (void)chmod(path.c_str(), (about.st_mode & 07777) | S_ISGID | 070);
}

std::string hostsOf(const Value& pod, const std::string& hostname) {
  std::string text = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n";
  if (const std::string& address = pod["status"]["podIP"].string(); !address.empty())
    text += format("{}\t{}\n", address, hostname);
  for (const Value& alias : pod["spec"]["hostAliases"].array())
    text += format("{}\t{}\n", alias["ip"].string(), join(textsOf(alias["hostnames"]), "\t"));
  return text;
}

}  // namespace

std::string Volumes::folderOf(const Value& pod) const {
  return format("{}/pods/{}", folder_, kube::uid(pod));
}

Result<std::string> Volumes::make(const Value& pod, const Value& volume,
                                  const Lookup& lookup) const {
  std::string place = format("{}/volumes/{}", folderOf(pod), volume["name"].string());
  if (volume["hostPath"].isObject()) {
    std::string path = volume["hostPath"]["path"].string();
    if (volume["hostPath"]["type"].string().ends_with("OrCreate")) CADRE_TRY(makeFolder(path));
    if (std::error_code ignored; !fs::exists(path, ignored))
      return wrong(format("hostPath {} is not on this machine", kube::inQuotes(path)));
    return path;
  }
  if (const Value& claim = volume["persistentVolumeClaim"]; claim.isObject())
    place = format("{}/claims/{}/{}", folder_, kube::ns(pod), claim["claimName"].string());
  std::error_code ignored;
  bool is_new = !fs::exists(place, ignored);
  CADRE_TRY(makeFolder(place));
  if (!isWritten(volume)) {
    // For every user of the containers; nobody else gets as far as this.
    if (is_new) fs::permissions(place, fs::perms::all, ignored);
    giveTo(pod, place);
    if (volume["emptyDir"].isObject() || volume["persistentVolumeClaim"].isObject() ||
        volume.object().size() <= 1)
      return place;
    return wrong(
        format("volume {} is of a kind that this node does not have", volume["name"].string()));
  }
  CADRE_LET(auto files, filesOf(pod, volume, lookup));
  if (pod["spec"]["securityContext"]["fsGroup"].isInteger())
    for (auto& [path, file] : files) file.mode |= 0440;
  CADRE_TRY(writeAtOnce(place, files));
  giveTo(pod, place);
  for (const auto& entry : fs::recursive_directory_iterator(place, ignored))
    giveTo(pod, entry.path());
  return place;
}

Result<Volumes::Places> Volumes::make(const Value& pod, const std::string& hostname,
                                      const Lookup& lookup) const {
  Places places;
  for (const Value& volume : pod["spec"]["volumes"].array()) {
    auto place = make(pod, volume, lookup);
    if (!place) return place.error().context(format("volume {}", volume["name"].string()));
    places[volume["name"].string()] = *std::move(place);
  }
  CADRE_TRY(writeHosts(pod, hostname));
  // A name may have several addresses.
  CADRE_TRY(writeText(folderOf(pod) + "/etc/host.conf", "multi on\n", 0644));
  return places;
}

Result<std::vector<Mount>> Volumes::mount(const Value& pod, const Value& container,
                                          const Places& places,
                                          const std::map<std::string, std::string>& env) const {
  std::set<std::string> kept;  // as the API has them: nobody writes there
  for (const Value& volume : pod["spec"]["volumes"].array())
    if (isWritten(volume)) kept.insert(volume["name"].string());
  std::string etc = folderOf(pod) + "/etc";
  std::vector<Mount> mounts{{etc + "/hosts", "/etc/hosts", true},
                            {etc + "/host.conf", "/etc/host.conf", true}};
  for (const Value& one : container["volumeMounts"].array()) {
    auto place = places.find(one["name"].string());
    if (place == places.end())
      return wrong(format("there is no volume {}", kube::inQuotes(one["name"].string())));
    std::string below = one["subPath"].string();
    if (const std::string& expression = one["subPathExpr"].string(); !expression.empty())
      below = expanded(json::Array{expression}, env).front();
    CADRE_LET(std::string source, within(place->second, below));
    mounts.push_back({std::move(source), one["mountPath"].string(),
                      one["readOnly"].boolean() || kept.contains(place->first)});
  }
  return mounts;
}

// In its place: it is mounted by itself.
Result<> Volumes::writeHosts(const Value& pod, const std::string& hostname) const {
  return writeText(folderOf(pod) + "/etc/hosts", hostsOf(pod, hostname) + names_(kube::ns(pod)),
                   0644);
}

Result<> Volumes::refresh(const Value& pod, const Lookup& lookup) const {
  for (const Value& volume : pod["spec"]["volumes"].array())
    if (isWritten(volume)) CADRE_TRY(make(pod, volume, lookup));
  return {};
}

void Volumes::forget(const Value& pod) const {
  std::error_code ignored;
  fs::remove_all(folderOf(pod), ignored);
  fs::remove_all(logFolder(folder_, pod), ignored);
}

void Volumes::keepOnly(const std::set<std::string>& pods) const {
  std::error_code ignored;
  for (std::string_view part : {"pods", "logs"}) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(fs::path(folder_) / part, ignored))
      found.push_back(entry.path());
    for (const fs::path& one : found) {
      std::string name = one.filename();  // the uid, or with what people know it by before it
      if (!pods.contains(name.substr(name.rfind('_') + 1))) fs::remove_all(one, ignored);
    }
  }
}

std::string logFolder(const std::string& folder, const Value& pod) {
  return format("{}/logs/{}_{}_{}", folder, kube::ns(pod), kube::name(pod), kube::uid(pod));
}

}  // namespace cadre::node
