#include "sim/observers/path_sums.hpp"

#include "sim/error.hpp"
#include "sim/observers/growth.hpp"
#include "sim/same_moment.hpp"

namespace trainyard {

std::size_t PathShares::find(std::string_view resource) {
  const auto found = std::ranges::find(names_, resource);
  const auto name = static_cast<std::size_t>(found - names_.begin());
  if (name == kMost) throw InternalError("too many resources in one critical path");
  if (found == names_.end()) names_.emplace_back(resource);
  return name;
}

std::map<std::string, double> PathShares::sums_by_name(const Sums& sums) const {
  std::map<std::string, double> named;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (sums[i] > 0) named[names_[i]] = sums[i];
  return named;
}

std::size_t PathSums::place_of(OpId id) const {
  const std::size_t mask = places_.size() - 1;
  std::size_t place = id * kGoldenGamma >> 20 & mask;
  while (places_[place].id != 0 && places_[place].id != id) place = (place + 1) & mask;
  return place;
}

std::size_t PathSums::find(OpId id) const {
  if (places_.empty()) return kNoChain;
  const Place& place = places_[place_of(id)];
  return place.id == 0 ? kNoChain : place.chain;
}

void PathSums::insert(std::size_t chain) {
  if (2 * (used_ + 1) > places_.size()) {
    std::vector<Place> old = std::exchange(places_, {});
    places_.assign(std::max<std::size_t>(64, 2 * old.size()), {});
    for (const Place& place : old)
      if (place.id != 0) places_[place_of(place.id)] = place;
  }
  const OpId id = chains_[chain].id;
  places_[place_of(id)] = {id, static_cast<std::uint32_t>(chain)};
  ++used_;
}

/// Removes a chain from the table. Entries that it had displaced move up.
void PathSums::erase(std::size_t chain) {
  const std::size_t mask = places_.size() - 1;
  std::size_t hole = place_of(chains_[chain].id);
  places_[hole] = {};
  for (std::size_t next = (hole + 1) & mask; places_[next].id != 0; next = (next + 1) & mask) {
    const Place moved = std::exchange(places_[next], {});
    places_[place_of(moved.id)] = moved;
  }
  --used_;
  free_.push_back(chain);
}

/// The cause of an operation ends at the moment when the operation is posted. Nothing can follow a chain that ended
/// earlier, unless it is on hold.
void PathSums::come_to(double now) {
  if (now <= now_) return;
  now_ = now;
  std::erase_if(ended_, [this](std::size_t chain) {
    if (same_moment(chains_[chain].ended, now_)) return false;
    if (chains_[chain].holds == 0) erase(chain);
    return true;
  });
}

void PathSums::follow(Chain& chain, OpId cause) {
  chain.cause = cause;
  const std::size_t before = cause == 0 ? kNoChain : find(cause);
  if (cause != 0 && before == kNoChain) throw InternalError("the critical path has lost a cause");
  if (before == kNoChain)
    shares_.clear(chain.sums);
  else
    shares_.copy(chains_[before].sums, chain.sums);
}

void PathSums::hold(OpId cause) {
  if (cause != 0) ++chains_[find(cause)].holds;
}

void PathSums::let_go(OpId cause) {
  if (cause == 0) return;
  const std::size_t chain = find(cause);
  if (--chains_[chain].holds == 0 && !same_moment(chains_[chain].ended, now_)) erase(chain);
}

void PathSums::posted(const OpRun& run) {
  come_to(run.posted.value);
  std::size_t number = chains_.size();
  if (free_.empty()) {
    chains_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
    Chain& again = chains_[number];
    again.path = "";
    again.holds = 0;
    again.launched_for = -1;
    again.ended = HUGE_VAL;
  }
  Chain& chain = chains_[number];
  chain.id = run.id;
  insert(number);
  follow(chain, run.cause);
  if (run.part >= 0) {
    const SeriesTimes& times = *run.interval->times;
    const int after = times.parts[static_cast<std::size_t>(run.part)].cause;
    shares_.add(sums_of(times, run.op->actor)[static_cast<std::size_t>(after + 1)], chain.sums);
  }
  // A receiver that joins a message under way follows the cause of its sender.
  if (run.op->kind != Kind::send || run.op->message.mode == Mode::rendezvous) return;
  hold(run.cause);
  causes_of_sends_[run.id] = run.cause;
}

void PathSums::started(const OpRun& run) {
  Chain& chain = chains_[find(run.id)];
  if (chain.cause != run.cause) follow(chain, run.cause);
  const double since = run.launch.since.value;
  if (since > 0 && since == run.started.value) shares_.copy(chain.sums, pauses_[run.op->actor].sums);
  if (!(run.launch.wait.value > 0)) return;
  chain.launched_for = run.started.value - since;
  chain.tail = run.launch.tail.value;
  if (since > 0)
    shares_.copy(pauses_[run.op->actor].sums, chain.sums);
  else
    shares_.clear(chain.sums);
}

void PathSums::transferred(const TransferRun& run) {
  come_to(run.ended.value);
  const bool in_parts = !run.last || legs_.contains(run.send_id);
  if (in_parts)
    legs_[run.send_id].push_back({run.started.value, run.ended.value, run.latency.seconds().value, run.limiting});
  if (!run.last) return;
  for (const OpId half : {run.send_id, run.recv_id})
    if (const std::size_t chain = half == 0 ? kNoChain : find(half); chain != kNoChain)
      chains_[chain].path = run.route.name;
  if (in_parts && run.recv_id != 0) legs_[run.recv_id] = legs_[run.send_id];
  const auto departed = causes_of_sends_.find(run.send_id);
  if (departed == causes_of_sends_.end()) return;
  let_go(departed->second);
  causes_of_sends_.erase(departed);
}

void PathSums::add_pieces(const OpRecord& record, std::span<const LegRecord> legs, PathShares::Sums& sums) {
  for_each_piece(record, legs, links_, [&](double begin, double end, std::string_view resource) {
    naming_.name(record, begin, end, resource, {shares_, sums});
  });
}

const std::vector<PathShares::Sums>& PathSums::sums_of(const SeriesTimes& times, Actor actor) {
  std::vector<PathShares::Sums>& sums = parts_[&times];
  if (!sums.empty()) return sums;
  sums.resize(times.parts.size() + 1);
  for (std::size_t i = times.first; i < times.parts.size(); ++i) {
    const SeriesTimes::PartTimes& part = times.parts[i];
    const Op& op = times.series->parts[i].op;
    OpRun run;
    run.op = &op;
    run.started = Seconds{part.begin};
    run.ended = Seconds{part.end};
    run.bytes = op.message.bytes;
    run.latency = part.latency;
    run.extra_latency = op.message.extra_latency;
    run.limiting = part.limiting;
    OpRecord record = record_of(run);
    record.actor = actor;
    shares_.copy(sums[static_cast<std::size_t>(part.cause + 1)], sums[i + 1]);
    add_pieces(record, {}, sums[i + 1]);
  }
  return sums;
}

bool PathSums::end_round(std::span<const OpId> live) {
  for (auto& [actor, pause] : pauses_)
    for (std::size_t r = 0; r < PathShares::kMost; ++r)
      pause.growth[r] = pause.sums[r] - std::exchange(pause.earlier[r], pause.sums[r]);
  bool same = live_.size() == live.size();
  live_.resize(live.size());
  std::vector<const Live*> live_of_chain(chains_.size(), nullptr);
  std::size_t counted = 0;
  for (std::size_t i = 0; i < live.size(); ++i) {
    Live& l = live_[i];
    const std::size_t chain = live[i] == 0 ? kNoChain : find(live[i]);
    same = same && (chain == kNoChain) == (l.chain == kNoChain);
    l.chain = chain;
    if (chain == kNoChain) continue;
    for (std::size_t r = 0; r < PathShares::kMost; ++r) {
      const double sum = chains_[chain].sums[r], growth = sum - l.sums[r];
      same = same && Growth::is_same(growth, l.growth[r], std::max(now_, sum));
      l.growth[r] = growth;
      l.sums[r] = sum;
    }
    if (!live_of_chain[chain]) {
      ++counted;
      live_of_chain[chain] = &l;
    }
    for (std::size_t r = 0; r < PathShares::kMost; ++r)  // all entries of one chain must have grown equally
      same = same && Growth::is_same(l.growth[r], live_of_chain[chain]->growth[r], std::max(now_, l.sums[r]));
  }
  // Chains that have ended count too: nothing can follow them.
  for (const std::size_t chain : ended_) counted += !live_of_chain[chain] && chains_[chain].holds == 0 ? 1 : 0;
  return same && counted == used_;
}

void PathSums::repeat_round(double times) {
  for (auto& [actor, pause] : pauses_)
    for (std::size_t r = 0; r < PathShares::kMost; ++r) pause.sums[r] += times * pause.growth[r];
  std::vector<bool> grown(chains_.size(), false);
  for (const Live& l : live_) {
    if (l.chain == kNoChain || grown[l.chain]) continue;
    grown[l.chain] = true;
    for (std::size_t r = 0; r < PathShares::kMost; ++r) chains_[l.chain].sums[r] += times * l.growth[r];
  }
}

void PathSums::finished(const OpRun& run) {
  come_to(run.ended.value);
  const std::size_t number = find(run.id);
  Chain& chain = chains_[number];
  OpRecord record = record_of(run);
  record.path = chain.path;
  if (run.interval) {
    const SeriesTimes& times = *run.interval->times;
    shares_.add(sums_of(times, record.actor)[static_cast<std::size_t>(times.last + 1)], chain.sums);
  } else if (chain.launched_for >= 0) {
    const double alone = std::max(record.started, record.ended - chain.tail);
    naming_.name(record, record.started - chain.launched_for, alone, kHostLaunch, {shares_, chain.sums});
    record.started = alone;
    add_pieces(record, {}, chain.sums);
  } else {
    const auto legs = legs_.find(run.id);
    add_pieces(record, legs == legs_.end() ? std::span<const LegRecord>() : legs->second, chain.sums);
    if (legs != legs_.end()) legs_.erase(legs);
  }
  chain.ended = now_;
  ended_.push_back(number);
  const std::tuple order(record.actor, record.stream, run.id);
  if (same_moment(longest_end_, record.ended) && order >= longest_) return;
  longest_end_ = std::max(longest_end_, record.ended);
  longest_ = order;
  shares_.copy(chain.sums, longest_sums_);
}

}  // namespace trainyard
