#include "sim/observers/timeline.hpp"

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
  r.work = run.op->work;
  r.path_class = run.op->message.path;
  r.bytes = run.bytes.value;
  r.latency = run.latency.seconds().value;
  r.limiting = run.limiting;
  r.began = run.began;
}

/// What is known of a message is kept with its send, which is there from the start. An eager sender has ended before.
void Timeline::transferred(const TransferRun& run) {
  const double latency = run.latency.seconds().value;
  if (!run.last || legs_.contains(run.send_id))
    legs_[run.send_id].push_back({run.started.value, run.ended.value, latency, run.limiting});
  if (!run.last) return;
  OpRecord& send = at(run.send_id);
  send.path = run.route.name;
  if (run.send->message.mode == Mode::eager) {
    send.bytes = run.send->message.bytes.value;
    send.limiting = run.limiting;
    send.latency = legs_.contains(run.send_id) ? 0 : latency;
    for (const LegRecord& leg : legs(run.send_id)) send.latency += leg.latency;
  }
  if (run.recv_id != 0) share_message(run.send_id, run.recv_id);
}

void Timeline::share_message(OpId send, OpId recv) {
  const char* path = at(send).path;
  at(recv).path = path;
  if (const auto found = legs_.find(send); found != legs_.end()) legs_.insert_or_assign(recv, found->second);
}

const std::vector<LegRecord>& Timeline::legs(OpId id) const {
  static const std::vector<LegRecord> none;
  const auto found = legs_.find(id);
  return found == legs_.end() ? none : found->second;
}

namespace {

/// A message's latency, then its bytes, piece by piece; the path is made from its end.
void add_message(std::vector<PathStep>& path, OpId id, const OpRecord& r, const std::vector<LegRecord>& legs,
                 std::span<const Link> links) {
  const auto add = [&](const LegRecord& leg) {
    const double moving = std::min(leg.ended, leg.started + leg.latency);
    if (leg.ended > moving)
      path.push_back({id, moving, leg.ended, leg.limiting >= 0 ? links[position(leg.limiting)].kind : kOwnLimit});
    if (moving > leg.started) path.push_back({id, leg.started, moving, "latency"});
  };
  if (legs.empty()) return add({r.started, r.ended, r.latency, r.limiting});
  std::for_each(legs.rbegin(), legs.rend(), add);
}

}  // namespace

std::vector<PathStep> critical_path(const Timeline& timeline, std::span<const Link> links, OpId last) {
  const std::vector<OpRecord>& records = timeline.records();
  OpId at = last <= records.size() ? last : 0;  // it was not recorded
  for (OpId id = 1; last == 0 && id <= records.size(); ++id)
    if (at == 0 || records[id - 1].ended > records[at - 1].ended ||
        (records[id - 1].ended == records[at - 1].ended && records[id - 1].actor < records[at - 1].actor))
      at = id;
  std::vector<PathStep> path;
  while (at != 0) {
    const OpRecord& r = records[at - 1];
    if (r.ended > r.started) {
      if (!r.began) {
        path.push_back({at, r.started, r.ended, "waiting"});
      } else if (waits_for_others(r.kind)) {
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
