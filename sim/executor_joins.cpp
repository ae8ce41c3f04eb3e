// Joins: barriers without messages. Whoever comes last lets all go on.
#include <algorithm>
#include <utility>

#include "sim/executor_state.hpp"

namespace trainyard {

void Executor::begin_join(Actor actor, Stream index) {
  const StreamState& last = actors_[static_cast<std::size_t>(actor)]->streams[index];
  const OpId cause = last.cause;
  std::vector<Ref>& there = joins_[last.front().message.tag];
  there.push_back(stream_ref(actor, index));
  if (there.size() < last.front().message.steps) return;
  std::vector<Ref> all = std::move(there);
  joins_.erase(last.front().message.tag);
  std::sort(all.begin(), all.end());
  for (const Ref ref : all) {
    StreamState& s = stream(ref);
    s.started = now_;
    s.cause = cause;
    announce_start(s);
    finish(static_cast<Actor>(ref / kMaxStreams), static_cast<Stream>(ref % kMaxStreams), Outcome::done);
  }
}

void Executor::withdraw_join(Tag tag, Ref ref) { std::erase(joins_[tag], ref); }

}  // namespace trainyard
