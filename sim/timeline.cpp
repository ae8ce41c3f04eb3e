#include "sim/timeline.hpp"

#include <algorithm>

namespace trainyard {

OpRecord& Timeline::at(OpId id) {
  if (id > records_.size()) records_.resize(id);
  return records_[id - 1];
}

void Timeline::finished(const OpRun& run) {
  OpRecord& r = at(run.id);
  r.cause = run.cause;
  r.name = run.op->name;
  r.actor = run.op->actor;
  r.peer = run.peer;
  r.posted = run.posted.value;
  r.started = run.started.value;
  r.ended = run.ended.value;
  r.tag = run.op->message.tag;
  r.kind = run.op->kind;
  r.stream = run.op->stream;
  r.group = run.op->group;
  r.bytes = run.bytes.value;
  r.latency = run.latency.seconds().value;
  r.limiting = run.limiting;
  r.began = run.began;
}

/// An eager sender has ended before its message's figures were known.
void Timeline::transferred(const TransferRun& run) {
  if (run.send->message.mode != Mode::eager || !run.last) return;
  OpRecord& send = at(run.send_id);
  send.bytes = run.send->message.bytes.value;
  send.latency = run.latency.seconds().value;
  send.limiting = run.limiting;
}

std::vector<PathStep> critical_path(const Timeline& timeline, std::span<const Link> links) {
  const std::vector<OpRecord>& records = timeline.records();
  OpId at = 0;
  for (OpId id = 1; id <= records.size(); ++id)
    if (at == 0 || records[id - 1].ended > records[at - 1].ended ||
        (records[id - 1].ended == records[at - 1].ended && records[id - 1].actor < records[at - 1].actor))
      at = id;
  std::vector<PathStep> path;
  while (at != 0) {
    const OpRecord& r = records[at - 1];
    if (r.ended > r.started) {
      if (!r.began) {
        path.push_back({at, r.started, r.ended, "waiting"});
      } else if (r.kind == Kind::send || r.kind == Kind::recv) {
        const double moving = std::min(r.ended, r.started + r.latency);
        const std::string what = r.limiting >= 0 ? links[static_cast<std::size_t>(r.limiting)].kind : "rate cap";
        if (r.ended > moving) path.push_back({at, moving, r.ended, what});
        if (moving > r.started) path.push_back({at, r.started, moving, "latency"});
      } else {
        path.push_back({at, r.started, r.ended,
                        r.kind == Kind::compute ? "compute"
                        : r.kind == Kind::local ? "memory"
                                                : "delay"});
      }
    }
    at = r.cause;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::map<std::string, double> by_resource(const std::vector<PathStep>& path) {
  std::map<std::string, double> sums;
  for (const PathStep& step : path) sums[step.resource] += step.end - step.begin;
  return sums;
}

}  // namespace trainyard
