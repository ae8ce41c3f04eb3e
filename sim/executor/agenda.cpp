#include "sim/executor/agenda.hpp"

#include <algorithm>

namespace trainyard {
namespace {
constexpr auto later = [](const auto& a, const auto& b) { return a.time > b.time; };
}

Agenda::TimerId Agenda::at(double time, Token token) {
  std::uint32_t slot;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  slots_[slot].token = token;
  heap_.push_back({time, slot, slots_[slot].version});
  std::push_heap(heap_.begin(), heap_.end(), later);
  ++live_;
  // Without compaction, cancelled timers would outnumber the live ones without bound.
  if (heap_.size() > 4 * live_ + 64) {
    std::erase_if(heap_, [this](const Entry& e) { return stale(e); });
    std::make_heap(heap_.begin(), heap_.end(), later);
  }
  return slot;
}

void Agenda::release(std::uint32_t slot) {
  ++slots_[slot].version;
  free_.push_back(slot);
  --live_;
}

void Agenda::cancel(TimerId slot) { release(slot); }

void Agenda::drop_stale() {
  while (!heap_.empty() && stale(heap_.front())) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }
}

double Agenda::next() {
  drop_stale();
  return heap_.empty() ? -1 : heap_.front().time;
}

void Agenda::collect(double until, std::vector<Token>& due) {
  for (drop_stale(); !heap_.empty() && heap_.front().time <= until; drop_stale()) {
    const std::uint32_t slot = heap_.front().slot;
    due.push_back(slots_[slot].token);
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    release(slot);
  }
}

}  // namespace trainyard
