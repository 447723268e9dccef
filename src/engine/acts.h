#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/random.h"
#include "base/scheduler.h"
#include "engine/plan.h"
#include "engine/world.h"

namespace cadre::engine {

// How one class of acts is done. Both run on the loop without blocking it, and dropping the Pending
// ends them.
struct ActClass {
  std::string name;
  // `resumed`: an earlier program had the same intent and may have begun. Find out what became of
  // it, or do what was not done.
  Function<Pending(const json::Value& intent, bool resumed, Function<void(Result<json::Value>)>)>
      perform;
  // Nobody wants it any more: ends what may have begun. Null: there is nothing to end.
  Function<Pending(const json::Value& intent, Function<void(Result<>)>)> cancel = nullptr;
};

// Acts of all objects. An act begins when its intent stands in the object's status (`status.acts`),
// so that whoever comes after a crash knows of it; it is done with when the status no longer names
// it. One thread.
class Acts {
 public:
  // `wake` is told whose acts have moved.
  Acts(Scheduler& scheduler, Random& random, std::vector<ActClass> classes,
       Function<void(const Ref& who)> wake);

  bool has(const Ref& who) const { return of_.contains(who); }
  // What became of an act; not known while it is being done.
  Fact outcome(const Ref& who, const std::string& id) const;

  // What `status.acts` has to say, given what it says and what the plan wants. Acts that are no
  // longer wanted stay there until they are cancelled, which this begins.
  json::Array wanted(const Ref& who, const json::Value& written, const std::vector<Act>& acts);
  // The intents of these were written to the status by this program: nobody can have begun them.
  void wrote(const Ref& who, const std::vector<std::string>& ids);
  // The status names them: what has not begun begins.
  void begin(const Ref& who, const std::vector<Act>& acts);

  // The object is gone: what was being done for it is cancelled.
  void forget(const Ref& who);
  // Another program leads, and goes on with them.
  void giveUp();

 private:
  struct Doing {
    std::string what;
    json::Value intent;
    Pending pending = {};
    Fact fact = {};
    bool over = false;  // there is an outcome
  };
  struct Cancelling {
    Pending pending = {};
    bool done = false;
    Backoff backoff;
    Pending again = {};
  };
  struct Of {
    std::map<std::string, Doing> doing;
    std::map<std::string, std::shared_ptr<Cancelling>> cancelling;
    std::set<std::string> ours;  // whose intent this program wrote
  };
  std::shared_ptr<Cancelling> newCancelling();
  void cancel(const Ref& who, const std::string& what, const json::Value& intent,
              const std::shared_ptr<Cancelling>& state);

  Scheduler& scheduler_;
  Random& random_;
  std::map<std::string, ActClass> classes_;
  const Function<void(const Ref& who)> wake_;
  std::map<Ref, Of> of_;
  std::set<std::shared_ptr<Cancelling>> orphans_;  // of objects that are gone
};

}  // namespace cadre::engine
