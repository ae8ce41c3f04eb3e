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
  if (!run.last_leg) {
    for (const OpId id : {run.send_id, run.recv_id})
      if (id != 0) legs_[id].push_back({run.started.value, run.ended.value, run.latency.seconds().value, run.limiting});
  }
  if (run.last) {
    at(run.send_id).path = run.route.name;
    if (run.recv_id != 0) at(run.recv_id).path = run.route.name;
  }
  if (run.send->message.mode != Mode::eager || !run.last) return;
  OpRecord& send = at(run.send_id);
  send.bytes = run.send->message.bytes.value;
  send.limiting = run.limiting;
  send.latency = run.latency.seconds().value;
  for (const LegRecord& leg : legs(run.send_id)) send.latency += leg.latency;
}

const std::vector<LegRecord>& Timeline::legs(OpId id) const {
  static const std::vector<LegRecord> none;
  const auto found = legs_.find(id);
  return found == legs_.end() ? none : found->second;
}

namespace {

/// A message's latency, then its bytes, leg by leg; the path is made from its end.
void add_message(std::vector<PathStep>& path, OpId id, const OpRecord& r, const std::vector<LegRecord>& legs,
                 std::span<const Link> links) {
  const auto add = [&](double from, double to, double latency, LinkId limiting) {
    const double moving = std::min(to, from + latency);
    if (to > moving)
      path.push_back({id, moving, to, limiting >= 0 ? links[static_cast<std::size_t>(limiting)].kind : "rate cap"});
    if (moving > from) path.push_back({id, from, moving, "latency"});
  };
  double last = r.started, latency = r.latency;
  for (const LegRecord& leg : legs) {
    last = leg.ended;
    latency -= leg.latency;
  }
  add(last, r.ended, std::max(0.0, latency), r.limiting);
  for (auto leg = legs.rbegin(); leg != legs.rend(); ++leg) add(leg->started, leg->ended, leg->latency, leg->limiting);
}

}  // namespace

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
        add_message(path, at, r, timeline.legs(at), links);
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
