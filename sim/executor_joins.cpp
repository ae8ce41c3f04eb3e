// Joins: barriers without messages. Whoever comes last lets all go on.
#include <algorithm>
#include <utility>

#include "sim/executor_state.hpp"

namespace trainyard {

void Executor::begin_join(StreamState& last) {
  const OpId cause = last.cause;
  std::vector<Ref>& there = joins_[last.front().message.tag];
  there.push_back(ref_of(last));
  if (there.size() < last.front().message.steps) return;
  std::vector<Ref> all = std::move(there);
  joins_.erase(last.front().message.tag);
  std::sort(all.begin(), all.end());
  for (const Ref ref : all) {
    StreamState& s = streams_[ref];
    s.started = now_;
    s.cause = cause;
    announce_start(s);
    finish(s, Outcome::done);
  }
}

void Executor::withdraw_join(Tag tag, Ref ref) { std::erase(joins_[tag], ref); }

}  // namespace trainyard
