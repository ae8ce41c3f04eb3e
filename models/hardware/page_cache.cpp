#include "models/hardware/page_cache.hpp"

namespace trainyard {
const char* name_of(CachePolicy policy) { return policy == CachePolicy::lru ? "lru" : "pinned"; }
const char* name_of(ReadOrder order) { return order == ReadOrder::sequential ? "sequential" : "shuffled"; }

bool PageCache::read(std::int64_t file, Bytes size) {
  if (const auto at = where_.find(file); at != where_.end()) {
    files_.splice(files_.begin(), files_, at->second);
    return true;
  }
  if (size > capacity_ || (policy_ == CachePolicy::pinned && held_ + size > capacity_)) return false;
  while (held_ + size > capacity_) {
    held_ -= files_.back().size;
    where_.erase(files_.back().number);
    files_.pop_back();
  }
  files_.push_front({file, size});
  where_[file] = files_.begin();
  held_ += size;
  return false;
}

}  // namespace trainyard
