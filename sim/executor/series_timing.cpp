#include "sim/executor/series_timing.hpp"

#include <fmt/format.h>

#include <limits>

#include "sim/error.hpp"
#include "sim/executor/limiting_link.hpp"

namespace trainyard::execution {
namespace {

class Timing {
 public:
  Timing(SeriesTimes& times, Actor actor, const Machine& machine, const Joins& joins, Transfers& transfers)
      : times_(times),
        parts_(times.series->parts),
        actor_(actor),
        machine_(machine),
        joins_(joins),
        transfers_(transfers) {
    now_.next = times.first;
  }

  bool run() {
    times_.parts.resize(parts_.size());
    while (begin_parts()) {
      find_speeds();
      note_phase();
      end_parts(span());
    }
    note_phase();
    times_.length = now_.begin;
    return is_undisturbed_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  SeriesTimes& times_;
  const std::vector<Series::Part>& parts_;
  Actor actor_;
  const Machine& machine_;
  const Joins& joins_;
  Transfers& transfers_;
  SeriesTimes::Phase now_;
  const Route* route_ = nullptr;  // route of the join under way
  bool is_undisturbed_ = true;
  int last_ended_ = -1;
  double host_ = 0;  // s that the host has needed to launch the parts begun so far

  const Op& op(int part) const { return parts_[static_cast<std::size_t>(part)].op; }
  SeriesTimes::PartTimes& part(int number) { return times_.parts[static_cast<std::size_t>(number)]; }
  bool moves(int part) const { return part >= 0 && op(part).kind == Kind::join; }
  int join() const { return now_.beside >= 0 ? now_.beside : moves(now_.main) ? now_.main : -1; }

  /// Begins all parts that can begin now. Returns false if the series is over.
  bool begin_parts() {
    while (now_.main < 0 && now_.next < parts_.size()) {
      const Series::Part& next = parts_[now_.next];
      if (now_.beside >= 0 && (next.waits || next.op.kind == Kind::join)) break;
      const auto number = static_cast<int>(now_.next++);
      part(number).begin = part(number).end = now_.begin;
      part(number).cause = last_ended_;
      (next.beside ? now_.beside : now_.main) = number;
      if (next.op.kind == Kind::join && Joins::flows(next.op.message)) {
        begin_join(number);
      } else if (next.op.kind == Kind::join || next.op.kind == Kind::mark) {
        end(number);
      } else {
        now_.left = work_duration(machine_.price(next.op.work, actor_), part(number));
        if (!(now_.left >= 0)) throw InternalError(fmt::format("a part of a series takes {} s", now_.left));
        if (now_.left == 0) end(number);
      }
    }
    return now_.main >= 0 || now_.beside >= 0;
  }

  /// Undisturbed duration of work whose host is ahead. Records how far ahead the host must be.
  double work_duration(const Cost& cost, SeriesTimes::PartTimes& part) {
    if (cost.host.value > 0) {
      times_.lead = std::max(times_.lead, host_ + cost.launched.value - (now_.begin + cost.duration.value));
      part.host = cost.host.value;
      host_ += part.host;
    }
    return cost.duration.value;
  }

  void begin_join(int number) {
    const Message& m = op(number).message;
    const GroupFlow& group = joins_.group_flow(actor_, m);
    route_ = &transfers_.find_route(group);
    part(number).latency = route_->latency + m.extra_latency;
    now_.latency = part(number).latency.seconds().value;
    now_.bytes = m.bytes.value;
    now_.rate = 0;
    is_undisturbed_ = is_undisturbed_ && route_->reachable && !group.by_engines && owns_links(group);
    auto& moved = times_.moved;
    if (std::any_of(moved.begin(), moved.end(), [&](const auto& other) { return other.group == &group; })) return;
    const std::vector<double> before(times_.phases.size(), 0);
    moved.push_back({&group, route_, before, before});
  }

  bool owns_links(const GroupFlow& group) const {
    const KnownGroup* known = machine_.known_group(group);
    return known && std::find(known->owners.begin(), known->owners.end(), actor_) != known->owners.end();
  }

  /// Finds the speed of the main part and the rate of the join, which slow each other.
  void find_speeds() {
    const bool works = now_.main >= 0 && !moves(now_.main) && op(now_.main).kind != Kind::delay;
    KindSet kinds = works ? bit(op(now_.main).kind) : KindSet{0};
    if (join() >= 0) kinds |= bit(Kind::send);
    now_.speed = works ? machine_.contention()->speed(actor_, op(now_.main).kind, kinds) : 1;
    now_.group = op(now_.main >= 0 ? now_.main : now_.beside).group;
    if (join() < 0 || now_.latency > 0) return;
    const double slow = machine_.contention()->speed(actor_, Kind::send, kinds);
    const bool leaves = now_.rate == 0;
    const auto capacity = [&](LinkId link) {
      const std::span<const LinkId> ports = machine_.contention()->ports(actor_);
      const bool port = slow != 1 && std::find(ports.begin(), ports.end(), link) != ports.end();
      return machine_.links()[position(link)].capacity.value * (port ? slow : 1);
    };
    now_.rate = op(join()).message.rate_cap.value;
    for (const LinkUse& use : route_->links)
      if (const double most = capacity(use.link) / use.weight; now_.rate <= 0 || most < now_.rate) now_.rate = most;
    if (now_.rate <= 0) now_.rate = kNever;
    LinkId& limiting = part(join()).limiting;
    for (const LinkUse& use : route_->links)
      if (leaves && limits(use.link, now_.rate * use.weight / capacity(use.link), limiting, machine_.links()))
        limiting = use.link;
  }

  double work_time() const { return now_.main >= 0 && !moves(now_.main) ? now_.left / now_.speed : kNever; }
  double join_time() const {
    if (join() < 0) return kNever;
    return now_.latency > 0 ? now_.latency : now_.bytes > 0 ? now_.bytes / now_.rate : 0;
  }
  double span() const { return std::min(work_time(), join_time()); }

  void end_parts(double span) {
    const bool work_ends = work_time() <= span, join_ends = join_time() <= span;
    now_.begin += span;
    now_.left = std::max(0.0, now_.left - span * now_.speed);
    const int joined = join();
    if (joined >= 0 && now_.latency > 0) {
      now_.latency = join_ends ? 0 : now_.latency - span;
      if (join_ends && now_.bytes <= 0) end(joined);
    } else if (joined >= 0) {
      now_.bytes = join_ends ? 0 : now_.bytes - span * now_.rate;
      if (join_ends) end(joined);
    }
    if (work_ends) end(now_.main);  // the main part ends last: it is the cause of whatever follows both
  }

  void end(int number) {
    part(number).end = now_.begin;
    (number == now_.beside ? now_.beside : now_.main) = -1;
    last_ended_ = times_.last = number;
    if (!moves(number) || !Joins::flows(op(number).message)) return;
    for (SeriesTimes::MovedBytes& moved : times_.moved) {
      if (moved.group != &joins_.group_flow(actor_, op(number).message)) continue;
      ended_.push_back({&moved - times_.moved.data(), op(number).message.bytes.value});
    }
  }
  struct EndedJoin {
    std::ptrdiff_t moved;
    double bytes;
  };
  std::vector<EndedJoin> ended_;  // since the last phase was recorded

  void note_phase() {
    if (now_.main >= 0 || now_.beside >= 0) add_share(now_.group);
    const double span = times_.phases.empty() ? 0 : now_.begin - times_.phases.back().begin;
    for (SeriesTimes::Share& share : times_.shares) {
      const double before = share.before.empty() ? 0 : share.before.back();
      const bool own = !times_.phases.empty() && times_.phases.back().group == share.group;
      share.before.push_back(before + (own ? span : 0));
    }
    for (SeriesTimes::MovedBytes& moved : times_.moved) {
      moved.bytes.push_back(moved.bytes.empty() ? 0 : moved.bytes.back());
      moved.joins.push_back(moved.joins.empty() ? 0 : moved.joins.back());
    }
    for (const EndedJoin& ended : ended_) {
      times_.moved[static_cast<std::size_t>(ended.moved)].bytes.back() += ended.bytes;
      times_.moved[static_cast<std::size_t>(ended.moved)].joins.back() += 1;
    }
    ended_.clear();
    times_.phases.push_back(now_);
  }

  void add_share(GroupId group) {
    const auto is_of_group = [group](const SeriesTimes::Share& share) { return share.group == group; };
    if (std::any_of(times_.shares.begin(), times_.shares.end(), is_of_group)) return;
    times_.shares.push_back({group, std::vector<double>(times_.phases.size(), 0)});
  }
};

}  // namespace

bool time_series(SeriesTimes& times, const Series& series, std::size_t first, Actor actor, const Machine& machine,
                 const Joins& joins, Transfers& transfers) {
  times.series = &series;
  times.first = first;
  return Timing(times, actor, machine, joins, transfers).run();
}

}  // namespace trainyard::execution
