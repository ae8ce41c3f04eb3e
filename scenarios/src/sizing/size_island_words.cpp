// The ways to train on owned nodes and on bought ones of another type, in words.
#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "scenarios/src/sizing/size_islands.hpp"

namespace trainyard {
namespace {

std::string percent_of(double share) { return fmt::format("{:.3g} %", share * 100); }

/// States the reason of a comparison of islands.
class IslandWords {
 public:
  IslandWords(const SizeAnswer& answer, const SizeIslands& islands) : answer_(answer), islands_(islands) {}

  std::string reason() const {
    const SizeIsland* best = nullptr;
    for (const SizeIsland& row : islands_.rows)
      if (row.kind != IslandKind::two_jobs && row.good() && row.missed.empty() && (!best || is_better(row, *best)))
        best = &row;
    std::vector<std::string> all{best ? winner(*best) : "No way to train one model on them meets all conditions"};
    for (const IslandKind kind :
         {IslandKind::owned_alone, IslandKind::more_owned, IslandKind::bought_alone, IslandKind::one_job})
      if (const SizeIsland* other = best_of(kind); other && (!best || best->kind != kind))
        all.push_back(compared(*other, best));
    const SizeIsland* one_job = best && best->kind == IslandKind::one_job ? best : best_of(IslandKind::one_job);
    if (one_job && one_job->of_two_jobs)
      all.push_back(fmt::format("in one job the nodes train on {:.4g} samples/s, {} {} than in a job on each type",
                                one_job->samples_per_s, percent_of(std::abs(*one_job->of_two_jobs - 1)),
                                *one_job->of_two_jobs < 1 ? "fewer" : "more"));
    if (const SizeIsland* jobs = best_of(IslandKind::two_jobs)) all.push_back(two_models(*jobs, best));
    return fmt::format("{}.", fmt::join(all, "; "));
  }

 private:
  const SizeAnswer& answer_;
  const SizeIslands& islands_;

  static bool is_better(const SizeIsland& a, const SizeIsland& b) {
    return std::pair(a.cost, a.days) < std::pair(b.cost, b.days);
  }

  /// Returns the best row of a way: one that meets all conditions, else the fastest. Null: the way has no training.
  const SizeIsland* best_of(IslandKind kind) const {
    const SizeIsland* best = nullptr;
    const auto rank = [](const SizeIsland& row) {
      const bool meets = row.missed.empty();
      return std::tuple(!meets, meets ? row.cost : row.days);
    };
    for (const SizeIsland& row : islands_.rows)
      if (row.kind == kind && row.good() && (!best || rank(row) < rank(*best))) best = &row;
    return best;
  }

  std::string bought_words(const SizeIsland& row) const { return fmt::format("{} x {}", row.bought_nodes, row.node); }
  /// Returns true if words about a way are about one thing: a job, or one node.
  static bool is_single(const SizeIsland& row) {
    return row.kind == IslandKind::one_job || (row.kind != IslandKind::owned_alone && row.bought_nodes == 1);
  }
  std::string owned_words() const { return fmt::format("{} x {}", islands_.nodes, islands_.node); }
  int used_nodes(const SizeIsland& row) const { return static_cast<int>(row.gpus / (islands_.gpus / islands_.nodes)); }
  std::string money(double amount) const { return money_words(amount, answer_.currency); }

  std::string winner(const SizeIsland& row) const {
    if (row.kind == IslandKind::owned_alone)
      return fmt::format("{}the {} that are owned meet all conditions alone: {}, and nothing is bought",
                         used_nodes(row) < islands_.nodes ? fmt::format("{} of ", used_nodes(row)) : "", owned_words(),
                         days_words(row.days));
    if (row.kind == IslandKind::more_owned)
      return fmt::format("{} more beside the {} that are owned {} least for one model: {} and {}", bought_words(row),
                         owned_words(), is_single(row) ? "costs" : "cost", money(row.cost), days_words(row.days));
    if (row.kind == IslandKind::bought_alone)
      return fmt::format("{} alone {} least for one model: {} and {}; the {} that are owned are left to other work",
                         bought_words(row), is_single(row) ? "costs" : "cost", money(row.cost), days_words(row.days),
                         owned_words());
    return fmt::format("one job on {} beside the {} that are owned costs least for one model: {} and {}",
                       bought_words(row), owned_words(), money(row.cost), days_words(row.days));
  }

  /// Says by how much a cost differs from that of the best way: ", 12 % more".
  std::string difference(double cost, const SizeIsland* best) const {
    if (!best) return "";
    if (best->cost <= 0 || cost == best->cost) return cost == best->cost ? ", equally much" : "";
    return fmt::format(", {} {}", percent_of(std::abs(cost / best->cost - 1)), cost > best->cost ? "more" : "less");
  }

  std::string compared(const SizeIsland& row, const SizeIsland* best) const {
    const std::string name = row.kind == IslandKind::owned_alone  ? "the owned nodes alone"
                             : row.kind == IslandKind::more_owned ? bought_words(row) + " more beside the owned ones"
                             : row.kind == IslandKind::bought_alone
                                 ? bought_words(row) + " alone"
                                 : "one job on " + bought_words(row) + " and the owned nodes";
    const std::string days = days_words(row.days);
    if (!row.missed.empty())
      return fmt::format("{} {} the {}: {}{}", name, is_single(row) ? "misses" : "miss", row.missed, days,
                         row.cost > 0 ? " and " + money(row.cost) : "");
    return fmt::format("{} {} {}{}, and {} {}", name, is_single(row) ? "costs" : "cost", money(row.cost),
                       difference(row.cost, best), is_single(row) ? "takes" : "take", days);
  }

  std::string two_models(const SizeIsland& row, const SizeIsland* best) const {
    return fmt::format(
        "two jobs train two models, the owned nodes one on {} of the samples, {} the other: {}{} and {}{}",
        percent_of(row.owned_share), bought_words(row), money(row.cost), difference(row.cost, best),
        days_words(row.days), row.missed.empty() ? "" : ", which misses the " + row.missed);
  }
};

}  // namespace

const char* name_of(IslandKind kind) {
  constexpr const char* names[] = {"owned alone", "more of them", "bought alone", "one job", "two jobs"};
  return names[static_cast<std::size_t>(kind)];
}

std::string island_reason(const SizeAnswer& answer, const SizeIslands& islands) {
  return IslandWords(answer, islands).reason();
}

const SizeIsland* best_shared_job(const SizeAnswer& answer) {
  const SizeIsland* best = nullptr;
  const auto rank = [](const SizeIsland& row) { return std::tuple(!row.missed.empty(), row.cost, row.days); };
  for (const SizeIslands& islands : answer.islands)
    for (const SizeIsland& row : islands.rows)
      if (row.kind == IslandKind::one_job && row.good() && (!best || rank(row) < rank(*best))) best = &row;
  return best;
}

}  // namespace trainyard
