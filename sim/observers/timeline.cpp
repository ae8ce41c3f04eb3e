#include "sim/observers/timeline.hpp"

#include <utility>

#include "sim/same_moment.hpp"

namespace trainyard {

OpRecord& Timeline::record(OpId id) {
  if (id > records_.size()) records_.resize(id);
  return records_[id - 1];
}

OpRecord record_of(const OpRun& run) {
  OpRecord r;
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
  r.extra_latency = run.extra_latency.seconds().value;
  r.latencies = run.latencies;
  r.limiting = run.limiting;
  r.began = run.began;
  return r;
}

void Timeline::started(const OpRun& run) {
  if (run.launch.wait.value > 0) record(run.id).launch = run.launch;
}

void Timeline::finished(const OpRun& run) {
  OpRecord& r = record(run.id);
  const OpRecord before = r;
  r = record_of(run);
  r.path = before.path;
  r.launch = before.launch;
}

/// Stores the data of a message with its send, which exists from the start. An eager send has ended by then.
void Timeline::transferred(const TransferRun& run) {
  const double latency = run.latency.seconds().value;
  if (!run.last || legs_.contains(run.send_id))
    legs_[run.send_id].push_back({run.started.value, run.ended.value, latency, run.limiting});
  if (!run.last) return;
  OpRecord& send = record(run.send_id);
  send.path = run.route.name;
  if (sender_goes_on(run.send->message.mode)) {
    send.bytes = run.send->message.bytes.value;
    send.limiting = run.limiting;
    send.extra_latency = run.send->message.extra_latency.seconds().value;
    send.latency = legs_.contains(run.send_id) ? 0 : latency;
    for (const LegRecord& leg : legs(run.send_id)) send.latency += leg.latency;
  }
  if (run.recv_id != 0) share_message(run.send_id, run.recv_id);
}

void Timeline::share_message(OpId send, OpId recv) {
  const char* path = record(send).path;
  record(recv).path = path;
  if (const auto found = legs_.find(send); found != legs_.end()) legs_.insert_or_assign(recv, found->second);
}

const std::vector<LegRecord>& Timeline::legs(OpId id) const {
  static const std::vector<LegRecord> none;
  const auto found = legs_.find(id);
  return found == legs_.end() ? none : found->second;
}

std::vector<PathStep> critical_path(const Timeline& timeline, std::span<const Link> links, OpId last) {
  const std::vector<OpRecord>& records = timeline.records();
  OpId current = last <= records.size() ? last : 0;  // `last` was not recorded
  double latest = 0;
  for (const OpRecord& r : records) latest = std::max(latest, r.ended);
  const auto order = [&records](OpId id) { return std::pair(records[id - 1].actor, records[id - 1].stream); };
  for (OpId id = 1; last == 0 && id <= records.size(); ++id)
    if (same_moment(records[id - 1].ended, latest) && (current == 0 || order(id) < order(current))) current = id;
  std::vector<PathStep> path;
  while (current != 0) {
    const OpRecord& r = records[current - 1];
    if (r.launch.wait.value > 0) {
      OpRecord tail = r;
      tail.started = std::max(r.started, r.ended - r.launch.tail.value);
      for_each_piece(tail, {}, links, [&](double begin, double end, std::string_view resource) {
        path.push_back({current, begin, end, std::string(resource)});
      });
      path.push_back({current, r.launch.since.value, tail.started, kHostLaunch});
      current = r.launch.cause;
      continue;
    }
    const std::size_t before = path.size();
    for_each_piece(r, timeline.legs(current), links, [&](double begin, double end, std::string_view resource) {
      path.push_back({current, begin, end, std::string(resource)});
    });
    std::reverse(path.begin() + static_cast<std::ptrdiff_t>(before), path.end());
    current = r.cause;
  }
  std::ranges::reverse(path);
  return path;
}

std::map<std::string, double> by_resource(const std::vector<PathStep>& path) {
  std::map<std::string, double> sums;
  for (const PathStep& step : path) sums[step.resource] += step.end - step.begin;
  return sums;
}

}  // namespace trainyard
