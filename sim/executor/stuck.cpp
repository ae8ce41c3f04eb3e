// What to say when nothing moves although operations are left.
#include <fmt/format.h>

#include <algorithm>

#include "sim/executor/executor_state.hpp"

namespace trainyard {
namespace {

struct Wait {
  Actor actor;
  Stream stream;
  std::string what;
  std::vector<std::pair<Actor, int>> on;  // actor and stream (−1: any of its blocked streams)
};

/// The first cycle of waits that a depth-first walk meets, as indices; empty if there is none.
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

  void visit(std::size_t at) {
    if (mark_[at] == 2 || !found_.empty()) return;
    if (mark_[at] == 1) {
      found_.assign(std::find(path_.begin(), path_.end(), at), path_.end());
      return;
    }
    mark_[at] = 1;
    path_.push_back(at);
    for (const auto& [actor, stream] : waits_[at].on)
      for (std::size_t next = 0; next < waits_.size(); ++next)
        if (waits_[next].actor == actor && (stream < 0 || waits_[next].stream == stream)) visit(next);
    path_.pop_back();
    mark_[at] = 2;
  }
};

}  // namespace

std::string Executor::name_with_state(Actor actor) const {
  const ActorState& a = actors_[static_cast<std::size_t>(actor)];
  const std::string name = machine_.actor_name(actor);
  return a.failed ? fmt::format("{}, which failed at {}", name, show(Seconds{a.failed_at})) : name;
}

std::string Executor::stuck() const {
  std::vector<Wait> waits;
  std::uint64_t left = 0;
  for (std::size_t i = 0; i < actors_.size(); ++i) {
    const ActorState& a = actors_[i];
    left += a.queued;
    const auto actor = static_cast<Actor>(i);
    const std::string name = machine_.actor_name(actor);
    for (std::size_t j = 0; j < a.streams.size(); ++j) {
      const StreamState& s = a.streams[j];
      if (s.empty()) continue;
      Wait wait{actor, static_cast<Stream>(j), "", {}};
      const Op& op = s.front();
      if (!s.busy) {
        for (const Dep& dep : op.deps)
          if (dep.count > 0 && a.streams[dep.stream].done < dep.count) {
            wait.on.emplace_back(actor, dep.stream);
            wait.what = fmt::format("{} waits for its stream {} to end {} operations ({} have)", name, dep.stream,
                                    dep.count, a.streams[dep.stream].done);
          }
      } else if (op.kind == Kind::join) {
        std::string there;
        for (const Ref ref : joins_.at(op.message.tag))
          there += (there.empty() ? "" : ", ") + machine_.actor_name(streams_[ref].actor);
        wait.what =
            fmt::format("{} waits for {} to meet (tag {}); there: {}", name, op.message.steps, op.message.tag, there);
        for (std::size_t k = 0; k < actors_.size(); ++k)
          if (actors_[k].failed) wait.what += "; not " + name_with_state(static_cast<Actor>(k));
      } else if (s.transfer != kNone) {
        wait.what = fmt::format("{} {} {}: its bytes stand still on a link without capacity", name,
                                op.kind == Kind::send ? "sends to" : "receives from", machine_.actor_name(s.peer));
      } else if (op.kind == Kind::send) {
        wait.on.emplace_back(s.peer, -1);
        wait.what = fmt::format("{} sends to {} (tag {})", name, name_with_state(s.peer), op.message.tag);
      } else if (op.kind == Kind::recv && op.message.slot != kAnyPeer) {
        wait.on.emplace_back(s.peer, -1);
        wait.what = fmt::format("{} receives from {} (tag {})", name, name_with_state(s.peer), op.message.tag);
      } else {
        wait.what = fmt::format("{} receives from anyone (tag {})", name, op.message.tag);
      }
      waits.push_back(std::move(wait));
    }
    if (a.waiting) waits.push_back({actor, 0, fmt::format("{} waits for an event", name), {}});
  }

  // A program that was not pulled far enough may hold the very operation that is waited for.
  for (std::size_t i = 0; i < actors_.size(); ++i)
    if (actors_[i].bound_hit && actors_[i].queued >= look_ahead_)
      return fmt::format("nothing can go on at {}: {} would have to look more than {} operations ahead",
                         show(Seconds{now_}), machine_.actor_name(static_cast<Actor>(i)), look_ahead_);

  const Cycle cycle(waits);
  std::string text = fmt::format("nothing can go on at {}, {} operations wait", show(Seconds{now_}), left);
  if (!cycle.found().empty()) {
    text = fmt::format("deadlock at {}, {} operations wait: ", show(Seconds{now_}), left);
    for (const std::size_t i : cycle.found()) text += waits[i].what + " -> ";
    return text + machine_.actor_name(waits[cycle.found().front()].actor) + " again";
  }
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(kShown, waits.size()); ++i) text += (i == 0 ? ": " : "; ") + waits[i].what;
  if (waits.size() > kShown) text += fmt::format("; and {} more", waits.size() - kShown);
  for (std::size_t i = 0; i < actors_.size(); ++i)
    if (const std::string name = name_with_state(static_cast<Actor>(i));
        actors_[i].failed && text.find(name) == std::string::npos)
      text += fmt::format("; nothing comes from {}", name);
  return text;
}

}  // namespace trainyard
