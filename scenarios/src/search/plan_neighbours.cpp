// Finds plans that differ from a plan in a single choice.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/search/plan_space.hpp"

namespace trainyard {
namespace {

/// Returns the next smaller and the next larger of the values, if there are any.
template <class T>
std::vector<T> values_beside(const std::vector<T>& values, const T& value) {
  std::vector<T> sorted = values, near;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  const auto above = std::upper_bound(sorted.begin(), sorted.end(), value);
  const auto below = std::lower_bound(sorted.begin(), sorted.end(), value);
  if (below != sorted.begin()) near.push_back(*std::prev(below));
  if (above != sorted.end()) near.push_back(*above);
  return near;
}

}  // namespace

std::vector<std::pair<std::string, PlanPoint>> PlanSpace::neighbours(const PlanPoint& best) const {
  std::vector<std::pair<std::string, PlanPoint>> all;
  const auto add = [&](const std::string& change, const PlanPoint& p) {
    const bool is_listed = std::any_of(all.begin(), all.end(), [&p](const auto& other) { return other.second == p; });
    if (fits_gpus(p) && scenario_.global_batch_size % (p.micro_batch * data(p)) == 0 && !(p == best) && !is_listed)
      all.emplace_back(change, p);
  };
  for (const SearchedDegree& degree : searched_degrees()) {
    const auto words = [&degree](std::int64_t ranks) {
      return ranks == degree.unsplit_value ? std::string(degree.unsplit_name) : fmt::format("{}", ranks);
    };
    for (const std::int64_t value : values_beside(ranks(degree, best), std::int64_t{best.*degree.member})) {
      PlanPoint p = best;
      p.*degree.member = static_cast<int>(value);
      if (p.tensor == 1) p.sequence = false;
      if (p.pipeline == 1) p.chunks = 1;
      if (!fits_gpus(p)) continue;
      // Skip a degree if the micro-batch does not suit its replicas' samples.
      const std::vector<std::int64_t> micro = micro_batches(p);
      if (std::find(micro.begin(), micro.end(), p.micro_batch) == micro.end()) continue;
      const auto orders = schedules(p);
      const auto is_same_order = [&p](const auto& order) {
        return order.first == p.schedule && order.second == p.chunks;
      };
      if (p.pipeline > 1 && std::none_of(orders.begin(), orders.end(), is_same_order)) {
        const auto same_schedule =
            std::find_if(orders.begin(), orders.end(), [&p](const auto& o) { return o.first == p.schedule; });
        if (same_schedule == orders.end()) continue;
        p.chunks = same_schedule->second;
      }
      add(fmt::format("{} {} instead of {}", degree.name, words(value), words(best.*degree.member)), p);
    }
  }
  for (const std::int64_t micro : values_beside(micro_batches(best), best.micro_batch)) {
    PlanPoint p = best;
    p.micro_batch = micro;
    add(fmt::format("micro-batch {} instead of {}", micro, best.micro_batch), p);
  }
  for (const auto& [schedule, chunks] : schedules(best)) {
    PlanPoint p = best;
    p.schedule = schedule;
    p.chunks = chunks;
    if (schedule == best.schedule)
      add(fmt::format("{} chunks instead of {}", chunks, best.chunks), p);
    else
      add(fmt::format("{}{} instead of {}", schedule, chunks > 1 ? fmt::format(" of {} chunks", chunks) : "",
                      best.schedule),
          p);
  }
  for (const PlanPoint& group : groups()) {  // the values of these choices have no order
    PlanPoint p = best;
    p.recompute = group.recompute;
    if (p.recompute != best.recompute)
      add(fmt::format("{} recomputation instead of {}", p.recompute == "none" ? "no" : p.recompute, best.recompute), p);
    p = best;
    p.sequence = group.sequence;
    if (p.tensor > 1) add(fmt::format("sequence parallelism {}", p.sequence ? "on" : "off"), p);
  }
  PlanPoint plain = best;
  plain.zero = 0;
  plain.reshard = true;
  plain.sync_last = false;
  plain.zero_group = 0;
  const auto words = [](const PlanPoint& p) {
    return (p.zero > 0 ? fmt::format("ZeRO {}", p.zero) : "no ZeRO") + sharing_details(p);
  };
  for (const PlanPoint& p : sharings(plain)) add(words(p) + " instead of " + words(best), p);
  return all;
}

}  // namespace trainyard
