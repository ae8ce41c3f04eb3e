#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/index.hpp"
#include "sim/names.hpp"
#include "sim/observer.hpp"
#include "sim/observers/growth.hpp"

namespace trainyard {

/// How one actor spends its time. The parts sum to `total`.
struct BreakdownParts {
  Seconds total;
  std::map<std::string, Seconds> work;     ///< by group
  std::map<std::string, Seconds> exposed;  ///< communication that no work covers, by group
  Seconds bubble;                          ///< waiting for a message that a peer has yet to produce
  Seconds other;                           ///< idle
};

/// Books each instant of each actor under the first that applies: work (groups in the order of `names`), communication,
/// bubble, prefetch, other. Memory: a few numbers per actor, whatever the number of operations.
class Breakdown : public Observer, private RoundSums {
 public:
  Interest interest() const override { return {.transfers = false, .stretches = true, .rounds = true}; }
  RoundSums* round_sums() override { return this; }
  bool end_round(std::span<const OpId>) override {
    double latest = 0;
    for (const State& s : actors_) latest = std::max(latest, s.since);
    return growth_.end_round(latest, [this](auto visit) { each_number(visit); });
  }
  void repeat_round(double times) override {
    growth_.repeat_round(times, [this](auto visit) { each_number(visit); });
  }
  explicit Breakdown(const Names& names) : names_(names) {}
  explicit Breakdown(Names&&) = delete;  // they are looked up later
  /// Of the actor that ended last (the lowest, of several).
  BreakdownParts parts() const;
  BreakdownParts parts(Actor) const;
  /// The same up to now as plain numbers, to be kept: their differences are the parts of a span of time.
  std::vector<double> booked(Actor) const;
  BreakdownParts parts_between(const std::vector<double>& from, const std::vector<double>& to) const;
  /// When its last operation ended; 0 of an actor that had none.
  Seconds end(Actor) const;
  Actor last() const;
  /// Of the first `actors` actors.
  Actor last(std::size_t actors) const;

  void posted(const OpRun&) override;
  void started(const OpRun&) override;
  void finished(const OpRun&) override;

 private:
  static constexpr std::size_t kGroups = 32;
  struct State {
    double since = 0, end = 0;
    std::uint16_t running[kGroups] = {};  // work and messages under way
    std::uint16_t waiting[kGroups] = {};  // messages whose other half is missing
    double booked[kGroups] = {};
    double bubble = 0, other = 0;
    const SeriesStretch* stretch = nullptr;  // under way
  };
  const Names& names_;
  IndexedVector<State, Actor> actors_;
  Growth growth_;

  template <class Visit>
  void each_number(Visit visit) {
    for (State& s : actors_) {
      for (double* number : {&s.since, &s.end, &s.bubble, &s.other}) visit(*number);
      for (double& booked : s.booked) visit(booked);
    }
  }

  State& at(Actor, Seconds now);
  void book(State&, double until);
  void book_stretch(State&, double until);
  void book_span(State&, double span);
};

}  // namespace trainyard
