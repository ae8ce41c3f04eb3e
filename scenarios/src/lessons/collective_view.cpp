#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/lessons/data_size.hpp"
#include "scenarios/src/lessons/teach_collective.hpp"
#include "sim/json_text.hpp"

namespace trainyard {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Contribution, slot, rank, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SlotContent, parts, divided, unknown, complete, stale, changed, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LessonTransfer, from, to, slots, content, first_slot, slot_count, adds, begin, end,
                                   bytes, link, link_kind)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LessonStep, begin, end, transfers, reduces_after, limiting, buffers, sent)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LessonMember, name, holds_data)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveLesson, operation, algorithm, reduction, ranks, root, labels_from, size,
                                   decimal, machine, members, slots, initial, steps, time, sent, received, total,
                                   least_rank, least_total, kept, hazards)

namespace {

void rename(nlohmann::json& j, const char* plain, const char* with_unit) {
  j[with_unit] = std::move(j[plain]);
  j.erase(plain);
}

/// Returns JSON for readers, whose keys include the units.
nlohmann::json lesson_json(const CollectiveLesson& lesson) {
  nlohmann::json j = lesson;
  for (nlohmann::json& step : j["steps"]) {
    rename(step, "begin", "begin_s");
    rename(step, "end", "end_s");
    rename(step, "sent", "sent_bytes");
    for (nlohmann::json& transfer : step["transfers"]) {
      rename(transfer, "begin", "begin_s");
      rename(transfer, "end", "end_s");
    }
  }
  rename(j, "decimal", "decimal_sizes");
  rename(j, "time", "time_s");
  for (const char* key : {"size", "sent", "received", "total", "least_rank", "least_total"})
    rename(j, key, (std::string(key) + "_bytes").c_str());
  return j;
}

std::string lesson_title(const CollectiveLesson& lesson) {
  std::string text = lesson.operation;
  if (!lesson.reduction.empty()) text += fmt::format(" ({})", lesson.reduction);
  text += fmt::format(" by {}, {}", lesson.algorithm, counted_noun(lesson.ranks, "rank"));
  if (lesson.root >= 0) text += fmt::format(", root {}", lesson.root + lesson.labels_from);
  return lesson.size > 0 ? text + ", " + size_text(lesson.size, lesson.decimal) : text;
}

std::vector<std::string> lesson_sums(const CollectiveLesson& lesson) {
  std::vector<std::string> all;
  std::size_t messages = 0;
  for (const LessonStep& step : lesson.steps) messages += step.transfers.size();
  all.push_back(fmt::format("{} in {}, {}", show(Seconds{lesson.time}), counted_noun(lesson.steps.size(), "step"),
                            counted_noun(messages, "message")));
  if (lesson.size > 0) {
    const double sent = std::ranges::max(lesson.sent), received = std::ranges::max(lesson.received);
    // The minimum is of ranks alone: with switches that reduce, fewer bytes suffice.
    const char* whose = static_cast<int>(lesson.members.size()) > lesson.ranks ? " of ranks alone" : "";
    all.push_back(fmt::format("the busiest rank sends {} and receives {}; closed-form minimum{}: {}",
                              size_text(sent, lesson.decimal), size_text(received, lesson.decimal), whose,
                              size_text(lesson.least_rank, lesson.decimal)));
    all.push_back(fmt::format("in total {} are sent; closed-form minimum{}: {}",
                              size_text(lesson.total, lesson.decimal), whose,
                              size_text(lesson.least_total, lesson.decimal)));
  }
  if (!lesson.slots.empty())
    all.push_back(lesson.kept ? "every rank ends with what the operation promises"
                              : "NOT every rank ends with what the operation promises: the algorithm is wrong");
  if (lesson.hazards.empty()) return all;
  all.push_back(
      fmt::format("{}: a receive overwrites what a send may still read; the result is right only if the\nsend captures "
                  "its data when it is posted",
                  counted_noun(lesson.hazards.size(), "hazard")));
  constexpr std::size_t most = 4;
  for (std::size_t i = 0; i < std::min(most, lesson.hazards.size()); ++i) all.push_back("  " + lesson.hazards[i]);
  if (lesson.hazards.size() > most) all.push_back(fmt::format("  and {} more", lesson.hazards.size() - most));
  return all;
}

std::string step_kind(const LessonStep& step) {
  bool adds = false, copies = false;
  for (const LessonTransfer& t : step.transfers)
    if (!t.slots.empty()) (t.adds ? adds : copies) = true;
  if (copies && step.reduces_after) return "copying, then reducing";
  return adds && copies ? "reducing and copying" : adds ? "reducing" : copies ? "copying" : "";
}

LessonGrid buffers_grid(const CollectiveLesson& lesson, const std::vector<std::vector<SlotContent>>& buffers,
                        const std::vector<double>& sent) {
  LessonGrid grid;
  grid.head = lesson.slots;
  if (!sent.empty()) grid.head.emplace_back("sent so far");
  for (std::size_t m = 0; m < buffers.size(); ++m) {
    if (!lesson.members[m].holds_data) continue;
    LessonGrid::Row& row = grid.rows.emplace_back(LessonGrid::Row{lesson.members[m].name, {}});
    for (const SlotContent& c : buffers[m])
      row.cells.push_back({c.text,
                           c.complete        ? Tone::complete
                           : c.stale         ? Tone::stale
                           : c.parts.empty() ? Tone::empty
                                             : Tone::part,
                           c.changed});
    if (!sent.empty()) row.cells.push_back({size_text(sent[m], lesson.decimal)});
  }
  return grid;
}

LessonFrame step_frame(const CollectiveLesson& lesson, std::size_t i) {
  const LessonStep& step = lesson.steps[i];
  const std::string kind = step_kind(step);
  LessonFrame frame;
  frame.caption =
      fmt::format("step {} of {}{}: {} to {}, takes {}", i + 1, lesson.steps.size(), kind.empty() ? "" : ", " + kind,
                  show(Seconds{step.begin}), show(Seconds{step.end}), show(Seconds{step.end - step.begin}));
  if (!step.limiting.empty()) {
    const std::size_t more = step.limiting.size() - 1;
    frame.detail = "limited by " + step.limiting.front() + (more > 0 ? fmt::format(" and {} more", more) : "");
  }
  frame.share = lesson.time > 0 ? (step.end - step.begin) / lesson.time : 1;
  for (const LessonTransfer& t : step.transfers) {
    std::string words = fmt::format("{}→{}", lesson.members[t.from].name, lesson.members[t.to].name);
    if (!t.slots.empty()) words += fmt::format(" {}: {}", t.slots, t.content);
    frame.arrows.push_back(
        {t.from, t.to, t.content, words, size_text(t.bytes, lesson.decimal) + (t.link.empty() ? "" : ", " + t.link)});
  }
  if (!lesson.slots.empty()) frame.grids = {buffers_grid(lesson, step.buffers, step.sent)};
  return frame;
}

std::vector<FieldRow> collective_json_rows() {
  return {
      {"operation", "text", "name of the collective", ""},
      {"algorithm", "text", "name of the algorithm", ""},
      {"reduction", "text", "what slots are combined by, such as sum; empty: nothing is combined", ""},
      {"ranks", "number", "number of ranks", ""},
      {"root", "number", "rank of the root; -1: the operation has none", ""},
      {"labels_from", "number", "number of the first rank in texts and pictures; the JSON counts from 0", ""},
      {"size_bytes", "bytes", "size of the data, as nccl-tests counts it", ""},
      {"decimal_sizes", "true|false", "texts write sizes in powers of 1000, as the command did", ""},
      {"machine", "text", "description of the machine", ""},
      {"members", "list", "the ranks, then the switches that take part", ""},
      {"members[].name", "text", "name of the rank or switch", ""},
      {"members[].holds_data", "true|false", "the member has data at some time", ""},
      {"slots", "[text]", "names of the slots", ""},
      {"initial", "list of lists", "contents of the slots before the first step, by member and slot", ""},
      {"initial[][].text", "text", "content of the slot, such as a0+a2", ""},
      {"initial[][].parts", "list", "contributions in the slot", ""},
      {"initial[][].parts[].slot", "number", "slot that the contribution came from", ""},
      {"initial[][].parts[].rank", "number", "rank that contributed it", ""},
      {"initial[][].parts[].count", "number", "how often it is in the sum", ""},
      {"initial[][].divided", "true|false", "the sum is divided by the number of ranks", ""},
      {"initial[][].unknown", "true|false", "a mixture whose parts cannot be recovered", ""},
      {"initial[][].complete", "true|false", "the slot has the final result of the operation", ""},
      {"initial[][].stale", "true|false", "the data belong to another slot", ""},
      {"initial[][].changed", "true|false", "the previous step changed the slot", ""},
      {"steps", "list", "messages that arrive together, and the buffers after them", ""},
      {"steps[].begin_s", "s", "time at which the first message begins", ""},
      {"steps[].end_s", "s", "end of the step", ""},
      {"steps[].transfers", "list", "messages of the step", ""},
      {"steps[].transfers[].from", "number", "sender, by its place in members", ""},
      {"steps[].transfers[].to", "number", "receiver, by its place in members", ""},
      {"steps[].transfers[].slots", "text", "names of the slots in the message; empty: it has no data", ""},
      {"steps[].transfers[].content", "text", "contents of these slots as they are sent", ""},
      {"steps[].transfers[].first_slot", "number", "first slot at the receiver; -1: the message touches no slot", ""},
      {"steps[].transfers[].slot_count", "number", "number of slots in the message", ""},
      {"steps[].transfers[].adds", "true|false", "the receiver combines the message with its own data", ""},
      {"steps[].transfers[].begin_s", "s", "time at which the message begins", ""},
      {"steps[].transfers[].end_s", "s", "time at which the message has arrived", ""},
      {"steps[].transfers[].bytes", "bytes", "size of the message", ""},
      {"steps[].transfers[].link", "text", "name of the link that limited its rate; empty: none did", ""},
      {"steps[].transfers[].link_kind", "text", "kind of the link that limited its rate", ""},
      {"steps[].reduces_after", "true|false", "a rank combines received data after the messages", ""},
      {"steps[].limiting", "[text]", "links that limited the slowest messages, or a latency that is most of their time",
       ""},
      {"steps[].buffers", "list of lists", "contents of the slots after the step, by member and slot", ""},
      {"steps[].buffers[][].text", "text", "content of the slot, such as a0+a2", ""},
      {"steps[].buffers[][].parts", "list", "contributions in the slot", ""},
      {"steps[].buffers[][].parts[].slot", "number", "slot that the contribution came from", ""},
      {"steps[].buffers[][].parts[].rank", "number", "rank that contributed it", ""},
      {"steps[].buffers[][].parts[].count", "number", "how often it is in the sum", ""},
      {"steps[].buffers[][].divided", "true|false", "the sum is divided by the number of ranks", ""},
      {"steps[].buffers[][].unknown", "true|false", "a mixture whose parts cannot be recovered", ""},
      {"steps[].buffers[][].complete", "true|false", "the slot has the final result of the operation", ""},
      {"steps[].buffers[][].stale", "true|false", "the data belong to another slot", ""},
      {"steps[].buffers[][].changed", "true|false", "the previous step changed the slot", ""},
      {"steps[].sent_bytes", "[bytes]", "bytes that each member has sent since the beginning", ""},
      {"time_s", "s", "time of the whole collective", ""},
      {"sent_bytes", "[bytes]", "bytes that each rank sends", ""},
      {"received_bytes", "[bytes]", "bytes that each rank receives", ""},
      {"total_bytes", "bytes", "sum over all messages", ""},
      {"least_rank_bytes", "bytes",
       "lower bound of what the busiest rank sends or receives, if only ranks move and add", ""},
      {"least_total_bytes", "bytes", "lower bound of total_bytes", ""},
      {"kept", "true|false", "all slots have the result that the operation promises", ""},
      {"hazards", "[text]", "what can go wrong, such as a slot that is read after it was overwritten", ""}};
}
const RegisterJsonReference collective_json_reference{
    "teach all-reduce", "a collective step by step; every other collective has the same keys", collective_json_rows};

}  // namespace

LessonView lesson_view(const CollectiveLesson& lesson) {
  LessonView view{
      lesson_title(lesson), "What every rank holds after every step, and what was sent", {"on " + lesson.machine}};
  if (lesson.algorithm == "ring-literal")
    view.notes.emplace_back(
        "as textbooks list it: each rank receives into the slot that it sends, then adds that to the next");
  for (const LessonMember& member : lesson.members)
    view.actors.push_back({member.name, static_cast<int>(view.actors.size()) >= lesson.ranks});
  LessonFrame& initial = view.frames.emplace_back(LessonFrame{.caption = "at the beginning"});
  if (!lesson.slots.empty()) initial.grids = {buffers_grid(lesson, lesson.initial, {})};
  for (std::size_t i = 0; i < lesson.steps.size(); ++i) view.frames.push_back(step_frame(lesson, i));
  view.sums = lesson_sums(lesson);
  view.json = json_text(lesson_json(lesson), 2);
  view.right = lesson.kept;
  return view;
}

}  // namespace trainyard
