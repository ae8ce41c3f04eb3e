#pragma once
#include <array>
#include <unordered_map>
#include <vector>

#include "sim/index.hpp"
#include "sim/observers/growth.hpp"

namespace trainyard {

/// Memory of every actor over time, by memory class, from what its operations allocate, use and free. The strategy
/// defines the numbers of Op::memory_class.
class MemoryUse : public NumberSums<MemoryUse> {
 public:
  static constexpr std::size_t kClasses = 8;
  using ByClass = std::array<double, kClasses>;  // bytes
  struct Sample {
    double time = 0;  // s
    double bytes = 0;
  };

  /// With `over_time`, each change is recorded: memory grows with the number of operations.
  explicit MemoryUse(bool over_time = false) : over_time_(over_time) {}
  Interest interest() const override {
    return {.level = over_time_ ? Level::ops : Level::totals,
            .transfers = false,
            .stretches = !over_time_,
            .rounds = !over_time_};
  }

  Actor highest() const;  ///< the actor with the highest peak (the lowest one, if several have it)
  Bytes peak(Actor actor) const { return Bytes{state(actor).peak}; }
  const ByClass& parts_at_peak(Actor actor) const { return state(actor).at_peak; }
  const std::vector<Sample>& samples(Actor actor) const { return state(actor).samples; }
  Bytes final_bytes(Actor actor) const { return Bytes{state(actor).total}; }  ///< allocated at the end of the run

  void started(const OpRun&) override;
  void finished(const OpRun&) override;

 private:
  friend NumberSums<MemoryUse>;
  struct State {
    ByClass now{}, at_peak{};
    double total = 0, peak = 0;
    std::vector<Sample> samples;
    const SeriesInterval* interval = nullptr;  // under way
    std::size_t next = 0;                      // next of its parts
    bool next_began = false;
  };
  /// Consecutive parts of a series that allocate and free the same bytes of one class.
  struct Turns {
    std::size_t memory_class = 0;
    double begin = 0, end = 0;
    int parts = 0;
  };
  bool over_time_;
  IndexedVector<State, Actor> actors_;
  std::unordered_map<const SeriesTimes*, std::vector<Turns>> turns_of_whole_;  // a series runs many times

  template <class Visit>
  void each_number(Visit visit) {
    for (State& s : actors_) {
      visit(s.total);
      visit(s.peak);
      for (double& bytes : s.now) visit(bytes);
      for (double& bytes : s.at_peak) visit(bytes);
    }
  }
  const State& state(Actor) const;  ///< empty for an actor without operations
  void add(State&, std::size_t memory_class, double bytes) const;
  void change(State&, const Op&, double bytes, double when);
  const std::vector<Turns>& turns_of(const SeriesTimes&);
  void book_whole(State&, const SeriesTimes&);
  void begin(State&, const Op&, double when);
  void end(State&, const Op&, double when);
  void catch_up(State&, double until);
};

}  // namespace trainyard
