#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/index.hpp"

namespace trainyard {

using TimerId = TypedIndex<struct TimerTag>;

/// Timers, each with the caller's token: a binary heap with lazy deletion, since interference moves timers often
/// (moving a SimGrid timer costs three times as much and allocates).
template <class Token>
class TimerQueue {
 public:
  TimerId at(double time, Token token) {
    const TimerId id = slots_.acquire();
    slots_[id].token = token;
    heap_.push_back({time, id, slots_[id].version});
    std::push_heap(heap_.begin(), heap_.end(), Later{});
    ++live_;
    // Without compaction, cancelled timers would outnumber the live ones without bound.
    if (heap_.size() > 4 * live_ + 64) {
      std::erase_if(heap_, [this](const Entry& e) { return stale(e); });
      std::make_heap(heap_.begin(), heap_.end(), Later{});
    }
    return id;
  }

  void cancel(TimerId id) {
    ++slots_[id].version;
    slots_.release(id);
    --live_;
  }

  /// Time of the next timer, or −1.
  double next() {
    drop_stale();
    return heap_.empty() ? -1 : heap_.front().time;
  }

  /// Moves the tokens of all timers up to `until` into `due`. Their ids are free again.
  void collect(double until, std::vector<Token>& due) {
    for (drop_stale(); !heap_.empty() && heap_.front().time <= until; drop_stale()) {
      const TimerId id = heap_.front().id;
      due.push_back(slots_[id].token);
      pop();
      cancel(id);
    }
  }

 private:
  struct Entry {
    double time;
    TimerId id;
    std::uint32_t version;
  };
  struct Slot {
    Token token{};
    std::uint32_t version = 0;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const { return a.time > b.time; }
  };
  std::vector<Entry> heap_;
  Pool<Slot, TimerId> slots_;
  std::size_t live_ = 0;

  bool stale(const Entry& e) const { return slots_[e.id].version != e.version; }
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    heap_.pop_back();
  }
  void drop_stale() {
    while (!heap_.empty() && stale(heap_.front())) pop();
  }
};

}  // namespace trainyard
