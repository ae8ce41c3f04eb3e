// Makes the nodes of one step: works of the GPU and the host, in an order that no dependency contradicts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "scenarios/src/traces/kineto.hpp"
#include "scenarios/src/traces/kineto_events.hpp"
#include "scenarios/src/traces/replay_plan.hpp"
#include "sim/error.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

/// Returns the size of an element of PyTorch's type in bytes; 0: unknown.
double size_of_type(const std::string& type) {
  static const std::map<std::string, double> sizes{
      {"double", 8}, {"long", 8},     {"complexfloat", 8}, {"float", 4}, {"int", 4},  {"uint32", 4}, {"half", 2},
      {"short", 2},  {"bfloat16", 2}, {"uint16", 2},       {"char", 1},  {"byte", 1}, {"bool", 1},   {"uint64", 8}};
  const std::string small = lower_case(type);
  if (small.starts_with("float8")) return 1;
  const auto found = sizes.find(small);
  return found == sizes.end() ? 0 : found->second;
}

/// Makes the nodes of one step.
class StepWriter {
 public:
  StepWriter(const KinetoEvents& events, double begin, double end, bool keeps_undescribed)
      : events_(events),
        begin_(begin),
        end_(end),
        keeps_undescribed_(keeps_undescribed),
        node_of_work_(events.works.size(), kNone) {
    for (std::uint32_t i = 0; i < events_.works.size(); ++i)
      if (events_.works[i].called >= begin_ && events_.works[i].called < end_) members_.push_back(i);
    deps_.resize(events_.works.size());
  }

  RecordedStep write() {
    if (members_.empty()) throw UserError(fmt::format("{}: the step has no kernel of the GPU", events_.file));
    find_deps();
    clock_ = events_.works[members_.front()].begin;
    for (const Entry& entry : entries()) switch (entry.kind) {
        case EntryKind::launch:
          spend_host(events_.works[entry.index].launched);
          hosts_[entry.index] = host_;
          break;
        case EntryKind::work:
          write_work(entry.index);
          break;
        case EntryKind::sync:
          write_sync(events_.calls[entry.index]);
          break;
      }
    // The host is ahead of the GPU when the step begins, and again when the next one does.
    if (const double ahead = host_ahead(); ahead > 0 && begin_ > -kEndless) add_host("host", ahead);
    double first = kEndless, last = 0;
    for (const std::uint32_t i : members_) {
      first = std::min(first, events_.works[i].begin);
      last = std::max(last, events_.works[i].end);
    }
    step_.time = (last - first) * 1e-6;
    write_notes();
    return std::move(step_);
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  /// The kind of an entry. Entries of one time are in this order.
  enum class EntryKind : std::uint8_t { launch, work, sync };
  struct Entry {
    double time = 0;  // us
    EntryKind kind = EntryKind::work;
    std::uint32_t index = 0;
  };

  const KinetoEvents& events_;
  double begin_, end_;  // us
  bool keeps_undescribed_;
  RecordedStep step_;
  std::vector<std::uint32_t> members_, node_of_work_;
  std::vector<std::vector<std::uint32_t>> deps_;  // works on other streams that a work waits for
  std::map<std::uint32_t, std::uint32_t> hosts_;  // nodes of the host that launch the works
  std::uint32_t host_ = kNone;                    // the last node of the host
  double clock_ = 0;                              // us; the host has worked until then
  std::size_t contradicted_ = 0, unlaunched_ = 0, undescribed_ = 0;
  const char* rule_ = "";

  void depend(std::uint32_t work, std::uint32_t source) {
    if (source >= work)
      ++contradicted_;
    else
      deps_[work].push_back(source);
  }
  void depend_on_others(std::uint32_t work, double called_before) {
    for (const auto& [stream, lane] : events_.lanes)
      if (stream != events_.works[work].stream)
        if (const auto source = events_.last_work(lane, called_before, events_.works[work].begin))
          depend(work, *source);
  }

  void find_deps() {
    for (const std::uint32_t work : members_) unlaunched_ += events_.works[work].call ? 0 : 1;
    const bool has_waits =
        std::ranges::any_of(events_.calls, [](const HostCall& call) { return call.kind == HostCall::Kind::wait; });
    if (deps_by_events())
      rule_ = "streams wait for each other as the trace's events say";
    else if (has_waits)
      deps_by_waits();
    else if (unlaunched_ == members_.size())
      deps_by_times();
  }

  /// Reads the events that streams wait for. Returns false if the trace has none that can be used.
  bool deps_by_events() {
    bool has_any = false;
    for (const EventWait& wait : events_.event_waits) {
      const HostCall *waits = events_.call(wait.waits, kEndless), *records = events_.call(wait.records, kEndless);
      const auto source = events_.lanes.find(wait.source), target = events_.lanes.find(wait.stream);
      if (!waits || !records || source == events_.lanes.end()) continue;
      has_any = true;
      if (target == events_.lanes.end()) continue;
      const auto last = events_.last_work(source->second, records->begin, kEndless);
      const auto next = std::ranges::find_if(
          target->second, [&](std::uint32_t work) { return events_.works[work].called >= waits->begin; });
      if (last && next != target->second.end()) depend(*next, *last);
    }
    return has_any;
  }

  /// A call of cudaStreamWaitEvent does not name its streams. An exchange uses the last call before it, as
  /// ProcessGroupNCCL does; other works use all calls before them. They wait for the last work of each stream that was
  /// launched before the call and had ended when they began.
  void deps_by_waits() {
    rule_ = "streams wait for what had ended, if the host makes them wait (cudaStreamWaitEvent)";
    std::vector<std::uint32_t> launched;
    for (std::uint32_t i = 0; i < events_.works.size(); ++i)
      if (events_.works[i].call) launched.push_back(i);
    sort_stably(launched, [this](auto a, auto b) { return events_.works[a].called < events_.works[b].called; });
    std::vector<double> pending;
    auto call = events_.calls.begin();
    for (const std::uint32_t work : launched) {
      for (; call != events_.calls.end() && call->begin < events_.works[work].called; ++call)
        if (call->kind == HostCall::Kind::wait) pending.push_back(call->begin);
      if (pending.empty()) continue;
      depend_on_others(work, pending.back());
      pending.pop_back();
      if (!events_.works[work].exchange) pending.clear();
    }
  }

  void deps_by_times() {
    if (events_.lanes.size() > 1)
      rule_ = "the trace has no calls of the host: streams wait for all that had ended, and the host takes no time";
    for (const std::uint32_t work : members_) depend_on_others(work, kEndless);
  }

  std::vector<Entry> entries() const {
    std::vector<Entry> all;
    std::set<double> threads;            // threads that launch works
    std::set<const HostCall*> launches;  // calls that launch works and wait for the GPU
    for (const std::uint32_t i : members_) {
      const GpuWork& work = events_.works[i];
      all.push_back({work.begin, EntryKind::work, i});
      if (!work.call) continue;
      all.push_back({work.launched, EntryKind::launch, i});
      const HostCall* call = &events_.calls[*work.call];
      threads.insert(call->thread);
      const bool is_copy = call->kind == HostCall::Kind::copy && call->end - call->begin > kLongestLaunch;
      if (work.has_waited || is_copy) launches.insert(call);
    }
    for (std::uint32_t i = 0; i < events_.calls.size(); ++i) {
      const HostCall& call = events_.calls[i];
      if (launches.contains(&call) || (call.kind == HostCall::Kind::sync && call.begin >= begin_ && call.begin < end_ &&
                                       threads.contains(call.thread)))
        all.push_back({call.end, EntryKind::sync, i});
    }
    sort_stably(all,
                [](const Entry& a, const Entry& b) { return std::tie(a.time, a.kind) < std::tie(b.time, b.kind); });
    return all;
  }

  ChakraNode& add_node(std::string name, ChakraType type, double microseconds) {
    ChakraNode& node = step_.nodes.emplace_back();
    node.id = step_.nodes.size() - 1;
    node.name = std::move(name);
    node.type = type;
    node.duration = microseconds * 1e-6;
    step_.groups_of_nodes.push_back(-1);
    return node;
  }

  ChakraNode& add_host(const char* name, double microseconds) {
    ChakraNode& node = add_node(name, ChakraType::compute, microseconds);
    node.on_host = 1;
    host_ = static_cast<std::uint32_t>(node.id);
    return node;
  }

  /// Returns the time for which the host launches works of the step before the first of them begins, us.
  double host_ahead() const {
    double first = kEndless, last = -kEndless;
    for (const std::uint32_t work : members_) {
      if (!events_.works[work].call) continue;
      first = std::min(first, events_.works[work].launched);
      last = std::max(last, events_.works[work].launched);
    }
    return std::min(last, events_.works[members_.front()].begin) - first;
  }

  /// Lets the host work until this time.
  void spend_host(double until) {
    if (until > clock_) add_host("host", until - clock_);
    clock_ = std::max(clock_, until);
  }

  /// Adds a call in which the host waits for works of the step. The rest of the call's time, in which none of these
  /// works runs, is work of the host, or a wait for the step before, which takes its recorded time.
  void write_sync(const HostCall& call) {
    spend_host(call.begin);
    const double after_begin = std::nextafter(call.begin, kEndless);
    double latest = clock_;
    std::vector<std::uint64_t> sources;
    const auto synced =
        call.correlation > 0 ? events_.synced_streams.find(call.correlation) : events_.synced_streams.end();
    for (const auto& [stream, lane] : events_.lanes) {
      if (synced != events_.synced_streams.end() && synced->second != stream) continue;
      const auto work = events_.last_work(lane, after_begin, call.end);
      if (!work || node_of_work_[*work] == kNone) continue;
      latest = std::max(latest, events_.works[*work].end);
      sources.push_back(node_of_work_[*work]);
    }
    add_host("synchronization", std::max(0.0, call.end - latest)).deps = sources;
    clock_ = std::max(clock_, call.end);
  }

  void write_work(std::uint32_t index) {
    const GpuWork& work = events_.works[index];
    ChakraNode& node =
        add_node(work.name, work.is_copy ? ChakraType::load : ChakraType::compute, work.end - work.begin);
    node.stream = work.stream;
    node_of_work_[index] = static_cast<std::uint32_t>(node.id);
    if (const auto host = hosts_.find(index); host != hosts_.end() && host->second != kNone)
      node.deps.push_back(host->second);
    for (const std::uint32_t source : deps_[index])
      if (node_of_work_[source] != kNone) node.deps.push_back(node_of_work_[source]);
    if (work.exchange) write_exchange(work, node);
  }

  [[noreturn]] void refuse(const GpuWork& work, const std::string& what) const {
    throw UserError(fmt::format("{}: the exchange at {:.3f} us \"{}\": {}", events_.file, work.begin, work.name, what));
  }

  void write_exchange(const GpuWork& work, ChakraNode& node) {
    const RecordedExchange& exchange = *work.exchange;
    const double most = std::max(exchange.in, exchange.out), element = size_of_type(exchange.type);
    const bool is_described = !exchange.operation.empty() && most > 0;
    if (!is_described && keeps_undescribed_) {
      ++undescribed_;
      return;
    }
    if (!is_described)
      refuse(work, fmt::format("its {} is missing; \"Collective name\", \"In msg nelems\" and \"dtype\" expected, in "
                               "its arguments or in those of its record_param_comms; or --keep-undescribed",
                               exchange.operation.empty() ? "operation" : "size"));
    if (element == 0) refuse(work, fmt::format("unknown dtype \"{}\"", exchange.type));
    RecordedGroup group = completed(exchange);
    const std::string operation = lower_case(exchange.operation);
    node.duration.reset();
    node.bytes = most * element;
    group.has_messages = operation == "send" || operation == "recv";
    if (group.has_messages) {
      const bool sends = operation == "send";
      if (exchange.peer < 0) refuse(work, fmt::format("\"{}\" expected", sends ? "Dst Rank" : "Src Rank"));
      node.type = sends ? ChakraType::send : ChakraType::recv;
      (sends ? node.destination : node.source) = exchange.peer;
    } else {
      const std::string family = family_of_kernel(work.name, exchange.operation);
      if (family == "other exchanges" || family == "send-recv")
        refuse(work, fmt::format("\"{}\" is no collective that can be replayed", exchange.operation));
      node.type = ChakraType::collective;
      node.collective = chakra_number(parse_operation(family));
      // Chakra states a rank's input. The output of an all-gather has the inputs of all ranks.
      if (gives_block(parse_operation(family)))
        node.bytes = exchange.in > 0 ? exchange.in * element : node.bytes / std::max(1, group.size);
    }
    const auto found = std::ranges::find(step_.groups, group);
    step_.groups_of_nodes.back() = static_cast<int>(found - step_.groups.begin());
    if (found == step_.groups.end()) step_.groups.push_back(std::move(group));
  }

  /// Returns the group of an exchange with all its ranks, as far as the trace has them anywhere.
  RecordedGroup completed(const RecordedExchange& exchange) const {
    RecordedGroup group = exchange.group;
    const auto has_all = [&group] {
      return !group.members.empty() &&
             (group.size == 0 || group.members.size() == static_cast<std::size_t>(group.size));
    };
    const auto found = events_.groups.find(group.name);
    if (!has_all() && found != events_.groups.end()) group.members = found->second;
    if (!has_all()) group.members.clear();
    const bool is_all = group.size > 0 && group.size == events_.world_size;
    const double first = is_all ? 0 : exchange.first, stride = is_all ? 1 : exchange.stride;
    if (group.members.empty() && stride > 0 && first >= 0)
      for (int k = 0; k < group.size; ++k) group.members.push_back(static_cast<int>(first + k * stride));
    if (group.size == 0) group.size = static_cast<int>(group.members.size());
    return group;
  }

  void write_notes() {
    if (*rule_ != 0) step_.notes.emplace_back(rule_);
    step_.notes.insert(step_.notes.end(), events_.repairs.begin(), events_.repairs.end());
    if (events_.repetitions > 0)
      step_.notes.push_back(
          fmt::format("{} events that are in the trace twice are replayed once", events_.repetitions));
    if (unlaunched_ > 0 && unlaunched_ < members_.size())
      step_.notes.push_back(
          fmt::format("{} works have no call of the host with their correlation: they begin when their stream is free",
                      unlaunched_));
    if (*rule_ == 0 && unlaunched_ > 0 && unlaunched_ == members_.size())
      step_.notes.emplace_back(
          "it has no calls of the host: each work begins when its stream is free, and pauses for the host are left "
          "out");
    if (undescribed_ > 0)
      step_.notes.push_back(fmt::format("{} that the trace does not describe take{} recorded time",
                                        undescribed_ == 1 ? "an exchange" : counted_noun(undescribed_, "exchange"),
                                        undescribed_ == 1 ? "s its" : " their"));
    if (contradicted_ > 0)
      step_.notes.push_back(
          fmt::format("{} dependencies that lead back in time by the trace's clocks are left out", contradicted_));
  }
};

}  // namespace

RecordedStep record_step(const KinetoEvents& events, const KinetoEvents::Step* step, bool keeps_undescribed) {
  return StepWriter(events, step ? step->begin : -kEndless, step ? step->end : kEndless, keeps_undescribed).write();
}

}  // namespace trainyard
