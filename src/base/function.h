#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace cadre {

// A callable that is moved, never copied, so that what it captures may be move-only too.
// Calling an empty one is a bug and crashes. Not thread-safe.
template <class Signature>
class Function;

template <class R, class... Args>
class Function<R(Args...)> {
 public:
  Function() = default;
  Function(std::nullptr_t) {}  // NOLINT: an empty one may be written as nullptr

  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Function> &&
             std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
  Function(F&& callable)  // NOLINT: a lambda is written where a Function is expected
      : callable_(std::make_unique<Holder<std::decay_t<F>>>(std::forward<F>(callable))) {}

  R operator()(Args... args) const { return callable_->call(std::forward<Args>(args)...); }
  explicit operator bool() const { return callable_ != nullptr; }

 private:
  struct Callable {
    virtual ~Callable() = default;
    virtual R call(Args... args) = 0;
  };
  template <class F>
  struct Holder final : Callable {
    template <class G>
    explicit Holder(G&& callable) : callable(std::forward<G>(callable)) {}
    R call(Args... args) override { return callable(std::forward<Args>(args)...); }
    F callable;
  };
  std::unique_ptr<Callable> callable_;
};

}  // namespace cadre
