#pragma once
#include <cstdint>
#include <vector>

namespace trainyard {

/// Timers for latencies, work and delays: a binary heap with lazy deletion, since interference moves timers often
/// (moving a SimGrid timer costs three times as much and allocates).
class Agenda {
 public:
  using TimerId = std::uint32_t;
  using Token = std::uint64_t;

  TimerId at(double time, Token token);
  void cancel(TimerId);
  /// Time of the next timer, or −1.
  double next();
  /// Moves the tokens of all timers up to `until` into `due`. Their ids are free again.
  void collect(double until, std::vector<Token>& due);

 private:
  struct Entry {
    double time;
    std::uint32_t slot;
    std::uint32_t version;
  };
  struct Slot {
    Token token = 0;
    std::uint32_t version = 0;
  };
  std::vector<Entry> heap_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t live_ = 0;

  bool stale(const Entry& e) const { return slots_[e.slot].version != e.version; }
  void drop_stale();
  void release(std::uint32_t slot);
};

}  // namespace trainyard
