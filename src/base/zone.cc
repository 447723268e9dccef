#include "base/zone.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/format.h"

namespace cadre {
namespace {

using std::chrono::seconds;

constexpr std::size_t kLargest = 1 << 20;  // bytes of a file; real ones have a few thousand

Error broken(std::string_view why) {
  return {.code = Code::InvalidArgument, .message = format("it is no time zone: {}", why)};
}

std::int64_t secondsAt(Time time) {
  return std::chrono::floor<seconds>(time).time_since_epoch().count();
}

int yearOf(std::int64_t at) {
  std::chrono::sys_days day =
      std::chrono::floor<std::chrono::days>(std::chrono::sys_seconds(seconds(at)));
  return static_cast<int>(std::chrono::year_month_day(day).year());
}

// Bytes from the front, most significant first. Past the end everything is 0, and `failed`.
struct Bytes {
  std::string_view left;
  bool failed = false;

  std::string_view take(std::size_t count) {
    if (count > left.size()) {
      failed = true;
      return {};
    }
    std::string_view taken = left.substr(0, count);
    left.remove_prefix(count);
    return taken;
  }
  std::int64_t number(std::size_t size) {
    std::uint64_t value = 0;
    for (unsigned char byte : take(size)) value = value << 8 | byte;
    std::size_t unused = 64 - 8 * size;
    return static_cast<std::int64_t>(value << unused) >> unused;
  }
};

struct Counts {
  std::size_t utc, standard, leaps, times, types, characters;
  std::size_t size(std::size_t time) const {
    return times * (time + 1) + types * 6 + characters + leaps * (time + 4) + standard + utc;
  }
};

std::optional<Counts> header(Bytes& bytes, char& version) {
  if (bytes.take(4) != "TZif") return std::nullopt;
  std::string_view rest = bytes.take(16);
  version = rest.empty() ? '\0' : rest[0];
  std::size_t of[6];
  for (std::size_t& count : of) count = static_cast<std::uint32_t>(bytes.number(4));
  if (bytes.failed) return std::nullopt;
  for (std::size_t count : of)
    if (count > kLargest) return std::nullopt;
  return Counts{of[0], of[1], of[2], of[3], of[4], of[5]};
}

}  // namespace

// "CET-1CEST,M3.5.0,M10.5.0/3": what POSIX takes in TZ, with times of a week before and after.
class TimeZone::RuleParser {
 public:
  explicit RuleParser(std::string_view text) : left_(text) {}

  std::optional<Rule> parse() {
    Rule rule;
    if (!name()) return std::nullopt;
    rule.standard = -time(24);
    if (!left_.empty()) {
      rule.has_summer = true;
      if (!name()) return std::nullopt;
      rule.summer = rule.standard + 3600;
      if (!left_.empty() && left_[0] != ',') rule.summer = -time(24);
      if (!day(rule.begin) || !day(rule.end) || !left_.empty()) return std::nullopt;
    }
    if (failed_) return std::nullopt;
    return rule;
  }

 private:
  bool take(char c) {
    if (left_.empty() || left_[0] != c) return false;
    left_.remove_prefix(1);
    return true;
  }
  bool name() {
    auto isLetter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    std::size_t length = 0;
    if (take('<')) {
      length = left_.find('>');
      if (length == std::string_view::npos) return false;
      left_.remove_prefix(length + 1);
    } else {
      while (length < left_.size() && isLetter(left_[length])) ++length;
      left_.remove_prefix(length);
    }
    return length >= 3;
  }
  int number(int low, int high) {
    std::size_t length = 0;
    int value = 0;
    while (length < left_.size() && length < 4 && left_[length] >= '0' && left_[length] <= '9')
      value = value * 10 + (left_[length++] - '0');
    failed_ |= length == 0 || value < low || value > high;
    left_.remove_prefix(length);
    return value;
  }
  std::int64_t time(int most_hours) {
    bool negative = take('-');
    if (!negative) take('+');
    std::int64_t value = number(0, most_hours) * 3600;
    if (take(':')) value += number(0, 59) * 60;
    if (take(':')) value += number(0, 59);
    return negative ? -value : value;
  }
  bool day(Day& day) {
    if (!take(',')) return false;
    if (take('M')) {
      day.how = Day::How::MonthWeek;
      day.month = number(1, 12);
      failed_ |= !take('.');
      day.week = number(1, 5);
      failed_ |= !take('.');
      day.day = number(0, 6);
    } else if (take('J')) {
      day.how = Day::How::Julian;
      day.day = number(1, 365);
    } else {
      day.day = number(0, 365);
    }
    if (take('/')) day.seconds = time(167);
    return !failed_;
  }

  std::string_view left_;
  bool failed_ = false;
};

Result<TimeZone> TimeZone::load(std::string_view name, const std::string& folder) {
  if (name == "UTC") return TimeZone();
  auto unknown = [&] {
    return Error{
        .code = Code::NotFound,
        .message = format("there is no time zone \"{}\" in {}; names are as in \"Europe/Berlin\"",
                          name, folder)};
  };
  bool plain = !name.empty() && name.size() < 100 && name[0] != '/' &&
               name.find("..") == std::string_view::npos &&
               name.find_first_not_of(
                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                   "_+-/") == std::string_view::npos;
  if (!plain) return unknown();
  std::ifstream file(format("{}/{}", folder, name), std::ios::binary);
  std::string bytes(kLargest, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (bytes.empty()) return unknown();
  auto zone = parse(bytes);
  if (!zone) return zone.error().context(format("the time zone \"{}\"", name));
  return zone;
}

Result<TimeZone> TimeZone::parse(std::string_view text) {
  Bytes bytes{text};
  char version = 0;
  auto counts = header(bytes, version);
  if (!counts) return broken("its first bytes are others");
  std::size_t wide = 4;
  if (version >= '2') {  // the same once more, with larger times
    wide = 8;
    bytes.take(counts->size(4));
    counts = header(bytes, version);
    if (!counts) return broken("its second part begins otherwise");
  }
  if (counts->types == 0) return broken("it says nothing");
  if (counts->leaps > 0) return broken("it counts leap seconds");
  if (counts->size(wide) > bytes.left.size()) return broken("it ends too early");

  TimeZone zone;
  std::vector<std::int64_t> times(counts->times);
  for (std::int64_t& time : times) time = bytes.number(wide);
  std::string_view kinds = bytes.take(counts->times);
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < counts->types; ++i) {
    offsets.push_back(bytes.number(4));
    bytes.take(2);
    if (offsets.back() < -26 * 3600 || offsets.back() > 26 * 3600)
      return broken("an offset of days");
  }
  bytes.take(counts->characters + counts->standard + counts->utc);
  zone.first_ = offsets[0];
  for (std::size_t i = 0; i < times.size(); ++i) {
    auto kind = static_cast<unsigned char>(kinds[i]);
    if (kind >= offsets.size()) return broken("it speaks of an offset that it has not");
    if (i > 0 && times[i] <= times[i - 1]) return broken("its times are in no order");
    zone.changes_.push_back({times[i], offsets[kind]});
  }
  if (wide == 4) return zone;
  if (bytes.take(1) != "\n") return broken("its rule is missing");
  std::string_view rule = bytes.left.substr(0, bytes.left.find('\n'));
  if (rule.size() == bytes.left.size()) return broken("its rule has no end");
  if (rule.empty()) return zone;
  zone.rule_ = RuleParser(rule).parse();
  if (!zone.rule_) return broken(format("its rule is \"{}\"", rule.substr(0, 100)));
  return zone;
}

// In the local time of before.
std::int64_t TimeZone::secondsOf(const Day& day, int year) {
  using namespace std::chrono;
  const std::chrono::year of(year);
  sys_days date;
  switch (day.how) {
    case Day::How::MonthWeek: {
      year_month month = of / std::chrono::month(static_cast<unsigned>(day.month));
      weekday wanted(static_cast<unsigned>(day.day));
      if (day.week == 5)
        date = sys_days(month / weekday_last(wanted));
      else
        date = sys_days(month / weekday_indexed(wanted, static_cast<unsigned>(day.week)));
      break;
    }
    case Day::How::Julian:  // 29 February is never counted
      date = sys_days(of / January / 1) + days(day.day - 1 + (of.is_leap() && day.day >= 60));
      break;
    case Day::How::Zero:
      date = sys_days(of / January / 1) + days(day.day);
      break;
  }
  return seconds(date.time_since_epoch()).count() + day.seconds;
}

std::vector<TimeZone::Change> TimeZone::byRule(int year) const {
  std::vector<Change> changes{{secondsOf(rule_->begin, year) - rule_->standard, rule_->summer},
                              {secondsOf(rule_->end, year) - rule_->summer, rule_->standard}};
  if (changes[1].at < changes[0].at) std::swap(changes[0], changes[1]);
  return changes;
}

seconds TimeZone::offsetAt(Time time) const {
  std::int64_t at = secondsAt(time);
  if (rule_ && (changes_.empty() || at >= changes_.back().at)) {
    if (!rule_->has_summer) return seconds(rule_->standard);
    // The last change of the rule that is over: one of last year or this year.
    std::int64_t offset = byRule(yearOf(at) - 1)[1].offset;
    for (int year : {yearOf(at), yearOf(at) + 1})
      for (const Change& change : byRule(year))
        if (change.at <= at) offset = change.offset;
    return seconds(offset);
  }
  auto next = std::ranges::upper_bound(changes_, at, {}, &Change::at);
  return seconds(next == changes_.begin() ? first_ : std::prev(next)->offset);
}

std::optional<Time> TimeZone::changesAfter(Time time) const {
  std::int64_t at = secondsAt(time);
  auto next = std::ranges::upper_bound(changes_, at, {}, &Change::at);
  if (next != changes_.end()) return Time(seconds(next->at));
  if (!rule_ || !rule_->has_summer) return std::nullopt;
  for (int year : {yearOf(at) - 1, yearOf(at), yearOf(at) + 1, yearOf(at) + 2})
    for (const Change& change : byRule(year))
      if (change.at > at) return Time(seconds(change.at));
  return std::nullopt;
}

std::string formatTime(Time time, const TimeZone& zone) {
  const std::chrono::seconds ahead = zone.offsetAt(time);
  std::string text = formatTime(time + ahead);
  auto minutes = std::chrono::duration_cast<std::chrono::minutes>(abs(ahead)).count();
  if (minutes == 0) return text;
  text.pop_back();  // Z
  return text + format("{}{:02}:{:02}", ahead < 0s ? '-' : '+', minutes / 60, minutes % 60);
}

}  // namespace cadre
