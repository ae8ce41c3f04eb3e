#include "scenarios/src/lessons/teach_collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/collectives/switch_actors.hpp"
#include "scenarios/src/lessons/slot_symbols.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/index.hpp"
#include "sim/observers/values.hpp"
#include "sim/stable_sort.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

using Buffers = std::map<Actor, std::vector<SlotContent>>;

/// Records the messages of a run and the contents of buffers after them. It must be called before `Values`, so that a
/// step is closed before the data of the next step are written. Values and machine exist only during the run.
class Recorder : public Observer {
 public:
  Recorder(const SlotSymbols& symbols, int ranks, Values& values, const ClusterMachine& machine)
      : symbols_(symbols), ranks_(ranks), values_(values), machine_(machine) {
    for (Actor rank = 0; rank < ranks; ++rank) {
      values.buffer(rank, kDataBuffer) = symbols.initial(rank);
      // An all-to-all with own counts, or a shift, sends from one buffer and receives into the data buffer.
      values.buffer(rank, kDataBuffer + kScratch) = symbols.initial(rank);
      read_slots(rank, 0, symbols.slots());
    }
    values.on_change([this](Actor actor, const Op& op) { note_change(actor, op); });
  }

  Interest interest() const override { return {.level = Level::ops}; }
  void posted(const OpRun&) override;
  void transferred(const TransferRun&) override;
  void delivered(const OpRun& send, const OpRun& recv) override;

  const Buffers& buffers() const { return buffers_; }
  /// Returns true if the ranks' buffers have the result that the operation promises.
  bool promise_holds() const;
  void write_to(CollectiveLesson&);

 private:
  struct Transit {
    double begin = 0, end = 0, latency = 0;
    std::string link, kind;  // link that limited its rate
  };
  struct Step {
    double end = 0;
    std::vector<LessonTransfer> transfers;
    std::vector<OpId> sends;
    bool reduces_after = false;
    Buffers buffers;
  };
  const SlotSymbols& symbols_;
  int ranks_;
  Values& values_;
  const ClusterMachine& machine_;
  std::map<OpId, std::string> content_;  // contents of messages in flight
  std::map<OpId, Transit> transits_;
  std::map<Actor, std::string> names_;  // names of the actors in the messages
  std::vector<Step> steps_;
  Buffers buffers_;

  void read_slots(Actor, int first, int count);
  void note_change(Actor, const Op&);
  /// The first slot and the number of slots of a range, which may wrap around from the last slot to the first.
  std::pair<int, int> slots_of(const BufferRef&) const;
  std::string slots_in_words(const BufferRef& read, const BufferRef& write) const;
  LessonStep shown_step(Step&, const std::map<Actor, int>& number, std::vector<double>& sent) const;
};

void Recorder::read_slots(Actor actor, int first, int count) {
  std::vector<SlotContent>& contents = buffers_[actor];
  contents.resize(static_cast<std::size_t>(symbols_.slots()));
  const Eigen::VectorXd& buffer = values_.buffer(actor, kDataBuffer);
  for (int i = 0; i < count; ++i) {
    const int slot = (first + i) % symbols_.slots();
    contents[slot] = symbols_.read(buffer, slot, actor);
  }
}

std::pair<int, int> Recorder::slots_of(const BufferRef& ref) const {
  const auto [begin, end] = Values::range(symbols_.slots(), ref);
  return {static_cast<int>(begin), static_cast<int>(end - begin)};
}

std::string Recorder::slots_in_words(const BufferRef& read, const BufferRef& write) const {
  const BufferRef& ref = read.buffer == kDataBuffer ? read : write;
  const auto [first, count] = slots_of(ref);
  const std::string name = symbols_.slot_name(first);
  const std::string what = name.starts_with("block") ? "" : count == 1 ? "slot " : "slots ";
  const std::string all =
      count == 1 ? what + name
                 : fmt::format("{}{}–{}", what, name, symbols_.slot_name((first + count - 1) % symbols_.slots()));
  return ref.buffer == kDataBuffer ? all : "scratch of " + all;
}

void Recorder::posted(const OpRun& run) {
  if (run.op->actor >= ranks_) {
    Eigen::VectorXd& buffer = values_.buffer(run.op->actor, kDataBuffer);
    if (buffer.size() == 0) buffer = symbols_.empty();  // buffer of a switch
  }
  const BufferRef& ref = run.op->effect.read;
  if (run.op->kind != Kind::send || !ref) return;
  const auto [first, count] = slots_of(ref);
  const Eigen::VectorXd& buffer = values_.buffer(run.op->actor, ref.buffer);
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (i == 0 ? "" : ", ") + symbols_.read(buffer, (first + i) % symbols_.slots(), run.op->actor).text;
  content_[run.id] = text;
}

void Recorder::transferred(const TransferRun& run) {
  const auto [entry, fresh] = transits_.try_emplace(run.send_id);
  Transit& transit = entry->second;
  if (fresh) transit.begin = run.started.value;
  transit.begin = std::min(transit.begin, run.started.value);
  transit.end = std::max(transit.end, run.ended.value);
  transit.latency = std::max(transit.latency, run.latency.seconds().value);
  if (run.limiting < 0) return;
  const Link& link = machine_.links()[run.limiting];
  transit.link = link.name;
  transit.kind = link.kind;
}

void Recorder::delivered(const OpRun& send, const OpRun& recv) {
  const double now = recv.ended.value;
  if (steps_.empty() || now > steps_.back().end * (1 + 1e-9) + kSameTime) {
    if (!steps_.empty()) steps_.back().buffers = buffers_;
    for (auto& [actor, slots] : buffers_)
      for (SlotContent& content : slots) content.changed = false;
    steps_.emplace_back();
  }
  Step& step = steps_.back();
  step.end = now;
  LessonTransfer moved;
  moved.from = send.op->actor;
  moved.to = recv.op->actor;
  for (const Actor actor : {moved.from, moved.to})
    names_[actor] = actor < ranks_ ? symbols_.rank_name(actor) : machine_.actor_name(actor);
  moved.bytes = send.op->message.bytes.value;
  const BufferRef &read = send.op->effect.read, &write = recv.op->effect.write;
  if (read && write) {
    moved.slots = slots_in_words(read, write);
    moved.content = content_[send.id];
    if (write.buffer == kDataBuffer) std::tie(moved.first_slot, moved.slot_count) = slots_of(write);
    moved.adds = recv.op->effect.action != Action::copy;
  }
  content_.erase(send.id);
  step.sends.push_back(send.id);
  step.transfers.push_back(std::move(moved));
}

void Recorder::note_change(Actor actor, const Op& op) {
  const bool combines = op.effect.action == Action::reduce || op.effect.action == Action::reduce_max ||
                        op.effect.action == Action::reduce_product;
  if (op.kind != Kind::recv && combines && !steps_.empty()) steps_.back().reduces_after = true;
  if (op.effect.write.buffer != kDataBuffer) return;
  const auto [first, count] = slots_of(op.effect.write);
  if (!buffers_.contains(actor)) read_slots(actor, 0, symbols_.slots());
  read_slots(actor, first, count);
  for (int i = 0; i < count; ++i) buffers_[actor][(first + i) % symbols_.slots()].changed = true;
}

LessonStep Recorder::shown_step(Step& step, const std::map<Actor, int>& number, std::vector<double>& sent) const {
  LessonStep shown;
  shown.begin = shown.end = step.end;
  double longest = 0;
  for (std::size_t i = 0; i < step.transfers.size(); ++i) {
    LessonTransfer& moved = step.transfers[i];
    const Transit& transit = transits_.at(step.sends[i]);
    moved.begin = transit.begin;
    moved.end = transit.end;
    moved.link = transit.link;
    moved.link_kind = transit.kind;
    moved.from = number.at(moved.from);
    moved.to = number.at(moved.to);
    sent[moved.from] += moved.bytes;
    shown.begin = std::min(shown.begin, moved.begin);
    longest = std::max(longest, moved.end - moved.begin);
  }
  for (std::size_t i = 0; i < step.transfers.size(); ++i) {
    const LessonTransfer& moved = step.transfers[i];
    if (moved.link.empty() || moved.end - moved.begin < longest * (1 - 1e-9)) continue;
    const double latency = transits_.at(step.sends[i]).latency;
    const std::string name = latency > longest / 2 ? fmt::format("a latency of {}", show(Seconds{latency}))
                                                   : fmt::format("{} ({})", moved.link, moved.link_kind);
    if (std::ranges::find(shown.limiting, name) == shown.limiting.end()) shown.limiting.push_back(name);
  }
  // Sorted by rank, independently of the order in which messages were matched.
  sort_stably(step.transfers, [](const LessonTransfer& a, const LessonTransfer& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  });
  shown.transfers = std::move(step.transfers);
  shown.reduces_after = step.reduces_after;
  shown.sent = sent;
  shown.buffers.resize(number.size());
  for (const auto& [actor, slots] : step.buffers) shown.buffers[number.at(actor)] = slots;
  return shown;
}

bool Recorder::promise_holds() const {
  for (Actor rank = 0; rank < ranks_; ++rank)
    for (int slot = 0; slot < symbols_.slots(); ++slot)
      if (symbols_.is_promised(rank, slot) && !buffers_.at(rank)[slot].complete) return false;
  return true;
}

void Recorder::write_to(CollectiveLesson& lesson) {
  if (!steps_.empty()) steps_.back().buffers = buffers_;
  for (const auto& [actor, slots] : buffers_)
    if (actor < ranks_) names_[actor] = symbols_.rank_name(actor);
  std::map<Actor, int> number;
  for (const auto& [actor, name] : names_) {
    number[actor] = static_cast<int>(lesson.members.size());
    lesson.members.push_back({name, false});
  }
  std::vector<double> sent(number.size(), 0.0);
  for (Step& step : steps_) lesson.steps.push_back(shown_step(step, number, sent));
  // A switch has no data before its first message.
  std::vector<SlotContent> nothing;
  for (int slot = 0; slot < symbols_.slots(); ++slot) nothing.push_back(symbols_.read(symbols_.empty(), slot, ranks_));
  lesson.initial.resize(number.size(), nothing);
  for (LessonStep& step : lesson.steps)
    for (std::size_t member = 0; member < number.size(); ++member) {
      std::vector<SlotContent>& buffer = step.buffers[member];
      if (buffer.empty()) buffer = nothing;
      for (const SlotContent& content : buffer) lesson.members[member].holds_data |= !content.parts.empty();
    }
}

void closed_forms(CollectiveLesson& lesson, Operation operation) {
  const int n = lesson.ranks;
  lesson.least_rank = bus_factor(operation, n) * lesson.size;
  // With a root, the share of each rank is sent once. Without one, every rank sends the same amount.
  const bool moves_all = operation == Operation::broadcast || operation == Operation::reduce;
  lesson.least_total = lesson.least_rank * (moves_all ? n - 1 : has_root(operation) ? 1 : n);
}

/// Returns the members of the group: ranks, then the switches that take part. Puts the tree of these switches into
/// `settings`.
std::vector<Actor> members_of(const ClusterSpec& cluster, const TeachOptions& o, CollectiveSettings& settings) {
  std::vector<Actor> members = consecutive_numbers(Actor{0}, o.ranks);
  const SwitchKind kind = collectives(o.operation).find(o.algorithm, o.place).switches;
  if (kind == SwitchKind::none) return members;
  SoftwareStack plain;
  plain.name = "plain";
  const ClusterMachine machine(cluster, plain);
  SwitchActors switches = switch_actors(machine, kind, members);
  settings.switches = std::move(switches.tree);
  members.insert(members.end(), switches.actors.begin(), switches.actors.end());
  return members;
}

}  // namespace

CollectiveLesson teach_collective(const ClusterSpec& cluster, const TeachOptions& o) {
  CollectiveRunOptions run;
  run.ranks = o.ranks;
  run.operation = o.operation;
  run.algorithm = o.algorithm;
  run.options = o.options;
  run.software = o.software;
  run.keep_steps = false;
  if (o.options.one_stream) run.folding = Folding::off;  // a deadlock names real ranks
  const std::vector<Actor> members = members_of(cluster, o, run.options.settings);
  const CollectiveSettings& settings = run.options.settings;
  const Collective& collective = find_collective(o.operation, o.algorithm, {0, o.ranks, &settings}, o.place);
  const bool data = o.operation != Operation::barrier;
  const int slots = data ? slots_needed(collective, o.ranks, members, run.options, kMostLessonSlots) : 0;
  const SlotSymbols symbols(o.operation, settings, o.ranks, slots, o.labels_from);
  std::unique_ptr<Recorder> recorder;
  CollectiveLesson lesson;
  lesson.operation = name_of(o.operation);
  lesson.algorithm = collective.name;
  if (reduces(o.operation)) lesson.reduction = name_of(settings.reduction);
  lesson.ranks = o.ranks;
  lesson.labels_from = o.labels_from;
  if (has_root(o.operation)) lesson.root = settings.root;
  lesson.size = data ? o.options.size.value : 0;
  lesson.machine = o.machine;
  for (int slot = 0; slot < slots; ++slot) lesson.slots.push_back(symbols.slot_name(slot));
  run.watch = [&](std::vector<Observer*>& observers, Values& values, const ClusterMachine& machine) {
    recorder = std::make_unique<Recorder>(symbols, o.ranks, values, machine);
    for (const auto& [rank, contents] : recorder->buffers()) lesson.initial.push_back(contents);
    observers.insert(observers.end(), {recorder.get(), &values});
  };
  CollectiveRun result = run_collective_here(cluster, run);
  lesson.time = result.time;
  lesson.sent = std::move(result.sent);
  lesson.received = std::move(result.received);
  lesson.total = result.total;
  lesson.hazards = std::move(result.hazards);
  lesson.kept = recorder->promise_holds();
  recorder->write_to(lesson);
  closed_forms(lesson, o.operation);
  return lesson;
}

}  // namespace trainyard
