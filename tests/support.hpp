#pragma once
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/error.hpp"
#include "sim/executor/executor.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/machine.hpp"
#include "sim/ops.hpp"
#include "sim/program.hpp"

namespace trainyard::test {

using nlohmann::json;

/// A machine of single links and routes. 1 FLOP takes a second; bytes of local memory take no time.
class TableMachine : public Machine, private Contention {
 public:
  LinkId link(BytesPerSecond capacity, std::string kind = "wire") {
    links_.push_back({"link " + std::to_string(links_.size()), std::move(kind), capacity});
    return static_cast<LinkId>(links_.size() - 1);
  }
  void connect(Actor from, Actor to, std::vector<LinkUse> links, Picoseconds latency = {}) {
    routes_[{from, to}].push_back({std::move(links), latency});
  }

  std::span<const Link> links() const override { return links_; }
  Cost price(const Work& work, Actor) const override { return {Seconds{work.flops.value}}; }
  /// The first connected route whose links are all up.
  Route route(Actor from, Actor to, PathClass) const override {
    Route none;
    none.reachable = false;
    const auto found = routes_.find({from, to});
    if (found == routes_.end()) return none;
    for (const TableRoute& route : found->second) {
      bool up = true;
      for (const LinkUse& use : route.links) up &= !down_.contains(use.link);
      if (up) return {route.links, route.latency};
    }
    return none;
  }
  const Contention* contention() const override { return interference ? this : nullptr; }
  double speed(Actor actor, Kind kind, KindSet active) const override { return interference(actor, kind, active); }
  std::span<const LinkId> ports(Actor actor) const override {
    const auto found = port_links.find(actor);
    return found == port_links.end() ? std::span<const LinkId>{} : found->second;
  }
  void link_state(LinkId link, bool up) override {
    if (up)
      down_.erase(link);
    else
      down_.emplace(link, true);
  }

  std::function<double(Actor, Kind, KindSet)> interference;
  std::map<Actor, std::vector<LinkId>> port_links;

 private:
  struct TableRoute {
    std::vector<LinkUse> links;
    Picoseconds latency;
  };
  std::vector<Link> links_;
  std::map<std::pair<Actor, Actor>, std::vector<TableRoute>> routes_;
  std::map<LinkId, bool> down_;
};

inline Op compute(double seconds, Stream stream = 0) {
  Op op;
  op.kind = Kind::compute;
  op.stream = stream;
  op.work.flops = Flops{seconds};
  return op;
}
inline Op message(Kind kind, double bytes, std::uint16_t slot = 0, Tag tag = 0, Stream stream = 0,
                  Mode mode = Mode::rendezvous) {
  Op op;
  op.kind = kind;
  op.stream = stream;
  op.message.bytes = Bytes{bytes};
  op.message.slot = slot;
  op.message.tag = tag;
  op.message.mode = mode;
  return op;
}
inline Op send(double bytes, std::uint16_t slot = 0, Tag tag = 0, Stream stream = 0, Mode mode = Mode::rendezvous) {
  return message(Kind::send, bytes, slot, tag, stream, mode);
}
inline Op recv(std::uint16_t slot = 0, Tag tag = 0, Stream stream = 0) {
  return message(Kind::recv, 0, slot, tag, stream);
}
inline Op after(Op op, Stream stream, std::uint32_t count) {
  op.deps[op.deps[0].count > 0 ? 1 : 0] = {count, stream};
  return op;
}

/// A program that cancels the running operation of another actor at a given time.
class Canceller : public ListProgram {
 public:
  Canceller(double when, Executor*& executor, Actor victim, Stream stream)
      : ListProgram({compute(when), compute(0)}), executor_(executor), victim_(victim), stream_(stream) {}
  Pull next(const Op*& op, const Repeat*& rounds) override {
    if (calls_++ == 1) executor_->cancel(victim_, stream_);
    return ListProgram::next(op, rounds);
  }

 private:
  Executor*& executor_;
  Actor victim_;
  Stream stream_;
  int calls_ = 0;
};

/// A program that works for a time, and then cancels what another actor runs on its stream 0.
class CancelOnEnd : public ListProgram {
 public:
  CancelOnEnd(double when, Executor*& executor, Actor victim)
      : ListProgram({compute(when)}), executor_(executor), victim_(victim) {}
  bool dynamic() const override { return true; }
  void notify(const Event&) override { executor_->cancel(victim_, 0); }

 private:
  Executor*& executor_;
  Actor victim_;
};

/// Records the end of every operation of every actor, in the order of finishing.
class Ends : public Observer {
 public:
  void finished(const OpRun& run) override {
    ends.push_back(
        {run.op->actor, run.op->stream, static_cast<int>(run.op->kind), run.ended.value, run.outcome == Outcome::done});
  }
  struct End {
    Actor actor;
    Stream stream;
    int kind;
    double time;
    bool done;
  };
  std::vector<End> ends;
  /// Time at which the actor's last operation on the stream ended; -1 if there was none.
  double last(Actor actor, Stream stream = 0) const {
    double t = -1;
    for (const End& e : ends)
      if (e.actor == actor && e.stream == stream) t = e.time;
    return t;
  }
};

/// Runs the programs on the machine. Returns [end of the run, end of stream 0 of each actor …].
inline json ends_of(TableMachine& machine, Programs programs, const std::vector<LinkChange>& changes = {},
                    const std::vector<Observer*>& observers = {}) {
  const std::size_t count = programs.size();
  Ends ends;
  RunSetup setup{{&ends}, changes};
  setup.observers.insert(setup.observers.end(), observers.begin(), observers.end());
  json result = json::array({run_programs(machine, std::move(programs), std::move(setup)).end.value});
  for (std::size_t a = 0; a < count; ++a) result.push_back(ends.last(static_cast<Actor>(a)));
  return result;
}

template <class... P>
std::vector<std::unique_ptr<Program>> programs(P... p) {
  std::vector<std::unique_ptr<Program>> all;
  (all.push_back(std::make_unique<P>(std::move(p))), ...);
  return all;
}

constexpr BytesPerSecond kRate{1e9};
inline auto near(double v) { return Approx(v).epsilon(1e-9).margin(1e-15); }

}  // namespace trainyard::test
