#include "sim/executor/deadlock_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace trainyard::execution {
namespace {

/// A stream that cannot continue.
struct Wait {
  Actor actor;
  Stream stream;
  std::string description;
  std::vector<std::pair<Actor, int>> waits_for;  // actor and stream (−1: any of its blocked streams)
};

/// The first cycle of waits that a depth-first search finds, as indices; empty if there is none.
class Cycle {
 public:
  explicit Cycle(const std::vector<Wait>& waits) : waits_(waits), mark_(waits.size(), 0) {
    for (std::size_t i = 0; i < waits.size() && found_.empty(); ++i) visit(i);
  }
  const std::vector<std::size_t>& found() const { return found_; }

 private:
  const std::vector<Wait>& waits_;
  std::vector<char> mark_;
  std::vector<std::size_t> path_, found_;

  void visit(std::size_t index) {
    if (mark_[index] == 2 || !found_.empty()) return;
    if (mark_[index] == 1) {
      found_.assign(std::ranges::find(path_, index), path_.end());
      return;
    }
    mark_[index] = 1;
    path_.push_back(index);
    for (const auto& [actor, stream] : waits_[index].waits_for)
      for (std::size_t next = 0; next < waits_.size(); ++next)
        if (waits_[next].actor == actor && (stream < 0 || waits_[next].stream == stream)) visit(next);
    path_.pop_back();
    mark_[index] = 2;
  }
};

class Report {
 public:
  Report(const Context& context, const ActorTable& table, const Joins& joins, std::uint32_t look_ahead)
      : context_(context), table_(table), joins_(joins), look_ahead_(look_ahead) {
    for (Actor actor = 0; actor < table.actors.end_id(); ++actor) add(actor);
  }

  std::string text() const {
    const std::string now = show(Seconds{context_.now});
    // A program that was not pulled far enough may hold the very operation that others wait for.
    for (Actor actor = 0; actor < table_.actors.end_id(); ++actor)
      if (const ActorState& a = table_.actors[actor]; a.bound_hit && a.queued >= look_ahead_)
        return fmt::format("nothing can go on at {}: {} would have to look more than {} operations ahead", now,
                           name(actor), look_ahead_);

    const Cycle cycle(waits_);
    if (!cycle.found().empty()) {
      std::string text = fmt::format("deadlock at {}, {} operations wait: ", now, left_);
      for (const std::size_t i : cycle.found()) text += waits_[i].description + " -> ";
      return text + name(waits_[cycle.found().front()].actor) + " again";
    }
    std::string text = fmt::format("nothing can go on at {}, {} operations wait", now, left_);
    constexpr std::size_t kShown = 8;
    for (std::size_t i = 0; i < std::min(kShown, waits_.size()); ++i)
      text += (i == 0 ? ": " : "; ") + waits_[i].description;
    if (waits_.size() > kShown) text += fmt::format("; and {} more", waits_.size() - kShown);
    for (const std::string& failed : failed_)
      if (text.find(failed) == std::string::npos) text += fmt::format("; nothing comes from {}", failed);
    return text;
  }

 private:
  const Context& context_;
  const ActorTable& table_;
  const Joins& joins_;
  const std::uint32_t look_ahead_;
  std::vector<Wait> waits_;
  std::vector<std::string> failed_;
  std::uint64_t left_ = 0;  // operations

  std::string name(Actor actor) const { return context_.machine.actor_name(actor); }
  std::string name_with_state(Actor actor) const {
    const ActorState& a = table_.actors[actor];
    return a.failed ? fmt::format("{}, which failed at {}", name(actor), show(Seconds{a.failed_at})) : name(actor);
  }

  void add(Actor actor) {
    const ActorState& a = table_.actors[actor];
    left_ += a.queued;
    if (a.failed) failed_.push_back(name_with_state(actor));
    for (const StreamState& s : a.streams)
      if (!s.empty()) waits_.push_back(s.busy ? wait_of_running(s) : wait_of_queued(a, s));
    if (a.waiting) waits_.push_back({actor, 0, fmt::format("{} waits for an event", name(actor)), {}});
  }

  Wait wait_of_queued(const ActorState& a, const StreamState& s) const {
    Wait wait{s.actor, s.index, "", {}};
    for (const Dep& dep : s.front().deps) {
      const std::uint32_t done = a.streams[dep.stream].done;
      if (dep.count == 0 || done >= dep.count) continue;
      wait.waits_for.emplace_back(s.actor, dep.stream);
      wait.description = fmt::format("{} waits for its stream {} to end {} operations ({} have)", name(s.actor),
                                     dep.stream, dep.count, done);
    }
    return wait;
  }

  Wait wait_of_running(const StreamState& s) const {
    const Op& op = s.front();
    const bool sends = op.kind == Kind::send;
    Wait wait{s.actor, s.index, "", {}};
    if (op.kind == Kind::join) {
      wait.description =
          s.transfer
              ? fmt::format("{} moves bytes with its group (tag {}): they stand still on a link without capacity",
                            name(s.actor), op.message.tag)
              : wait_at_join(s);
    } else if (s.transfer) {
      wait.description = fmt::format("{} {} {}: its bytes stand still on a link without capacity", name(s.actor),
                                     sends ? "sends to" : "receives from", name(s.peer));
    } else if (sends || op.message.slot != kAnyPeer) {
      wait.waits_for.emplace_back(s.peer, -1);
      wait.description = fmt::format("{} {} {} (tag {})", name(s.actor), sends ? "sends to" : "receives from",
                                     name_with_state(s.peer), op.message.tag);
    } else {
      wait.description = fmt::format("{} receives from anyone (tag {})", name(s.actor), op.message.tag);
    }
    return wait;
  }

  std::string wait_at_join(const StreamState& s) const {
    const Message& m = s.front().message;
    std::string arrived;
    for (const StreamId id : joins_.waiting(m.tag))
      arrived += (arrived.empty() ? "" : ", ") + name(table_.streams[id].actor);
    std::string text =
        fmt::format("{} waits for {} to meet (tag {}); arrived: {}", name(s.actor), m.steps, m.tag, arrived);
    for (Actor actor = 0; actor < table_.actors.end_id(); ++actor)
      if (table_.actors[actor].failed) text += "; not " + name_with_state(actor);
    return text;
  }
};

}  // namespace

std::string deadlock_report(const Context& context, const ActorTable& table, const Joins& joins,
                            std::uint32_t look_ahead) {
  return Report(context, table, joins, look_ahead).text();
}

}  // namespace trainyard::execution
