#pragma once
#include <vector>

#include "sim/index.hpp"
#include "sim/placed_heap.hpp"

namespace trainyard {

using TimerId = TypedIndex<struct TimerTag>;

/// Timers, each with the caller's token. Interference moves timers often: moving a SimGrid timer would cost three times
/// as much and allocate memory.
template <class Token>
class TimerQueue {
 public:
  TimerId add(double time, Token token) {
    const TimerId id = tokens_.acquire();
    tokens_[id] = token;
    places_.grown(id) = kNoPlace;
    heap_.set({time, id}, place());
    return id;
  }

  void cancel(TimerId id) {
    heap_.remove(places_[id], place());
    tokens_.release(id);
  }

  double due(TimerId id) const { return heap_.items()[places_[id]].due; }
  std::size_t size() const { return heap_.size(); }
  /// Delays the timers whose token satisfies `moves`.
  template <class Moves>
  void shift(double seconds, Moves&& moves) {
    std::vector<Entry> all = heap_.items();
    heap_.clear();
    for (Entry& entry : all) {
      places_[entry.id] = kNoPlace;
      if (moves(tokens_[entry.id])) entry.due += seconds;
      heap_.set(entry, place());
    }
  }

  /// Time of the next timer, or −1 if there is none.
  double next() const { return heap_.empty() ? -1 : heap_.front().due; }

  /// Moves the tokens of all timers up to `until` into `due`, and frees their ids.
  void collect(double until, std::vector<Token>& due) {
    while (!heap_.empty() && heap_.front().due <= until) {
      due.push_back(tokens_[heap_.front().id]);
      cancel(heap_.front().id);
    }
  }

 private:
  struct Entry {
    double due;
    TimerId id;
  };
  PlacedHeap<Entry> heap_;
  Pool<Token, TimerId> tokens_;
  IndexedVector<std::uint32_t, TimerId> places_;

  auto place() {
    return [this](TimerId id) -> std::uint32_t& { return places_[id]; };
  }
};

}  // namespace trainyard
