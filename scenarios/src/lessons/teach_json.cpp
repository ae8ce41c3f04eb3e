#include "scenarios/src/lessons/teach_collective.hpp"

#include <nlohmann/json.hpp>

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

}  // namespace

nlohmann::json lesson_report(const CollectiveLesson& lesson) {
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

}  // namespace trainyard
