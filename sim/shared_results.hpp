#pragma once
#include <map>
#include <memory>
#include <mutex>

namespace trainyard {

/// Results that are computed once for each key. Several threads may ask at once. Copies of this object share the results.
template <class Key, class Result>
class SharedResults {
 public:
  /// Returns the result for the key. If there is none yet, `compute()` makes it while other threads wait.
  template <class Compute>
  Result find(const Key& key, Compute compute) const {
    const std::lock_guard lock(kept_->mutex);
    const auto found = kept_->results.find(key);
    return found != kept_->results.end() ? found->second : kept_->results.emplace(key, compute()).first->second;
  }

 private:
  struct KeptResults {
    std::mutex mutex;
    std::map<Key, Result> results;
  };
  std::shared_ptr<KeptResults> kept_ = std::make_shared<KeptResults>();
};

}  // namespace trainyard
