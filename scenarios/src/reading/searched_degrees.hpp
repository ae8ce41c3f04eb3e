#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strategies/plan/mesh.hpp"

namespace trainyard {

class Fields;
struct PlanChoice;
struct Scenario;

/// The sizes on which the legal values of a degree depend, besides the other degrees.
struct DegreeScope {
  std::int64_t gpus = 1;  ///< number of GPUs of the cluster
  bool is_transformer = false, has_experts = false, has_tables = false;
  bool splits_tokens = false;  ///< samples are so long, or the scenario says so, that context ranks are considered
};

/// A degree of parallelism that the search may choose. This table is all that the search knows of it.
struct SearchedDegree {
  const char* name;       ///< in descriptions: "expert-tensor"
  const char* key;        ///< below `plan`: "expert_parallel.tensor"
  int Degrees::*member;   ///< its number of ranks
  int unsplit_value = 1;  ///< value without this kind of parallelism, whose key is not written
  const char* unsplit_name = "1";
  /// Lists the values that the search tries. They depend on the degrees before this one.
  std::vector<std::int64_t> (*values)(const DegreeScope&, const Degrees&);
  /// Number of ranks of a stage that the degree must divide. Null: its ranks, times those of the other such degrees,
  /// divide the GPUs of the cluster, and the data-parallel ranks are what remains.
  std::int64_t (*shared_ranks)(const DegreeScope&, const Degrees&) = nullptr;
  /// A limited search looks at small degrees first: null if any degree is as likely; else the largest likely one.
  int (*likely_limit)(int gpus_of_node) = nullptr;
  /// Reads the keys of the degree. Null: `read_plan` does, because others depend on it.
  void (*read)(PlanChoice&, Fields& plan) = nullptr;

  std::string path() const;  ///< path by which a user varies it: "plan.context_parallel"
};

/// Lists the degrees in the order in which the search chooses them.
std::span<const SearchedDegree> searched_degrees();
/// Returns the number of data-parallel ranks: of the GPUs, those that no degree takes.
std::int64_t data_ranks(std::int64_t gpus, const Degrees&);
/// Returns true if the degree has a legal value beside the degrees before it.
bool is_legal(const SearchedDegree&, const DegreeScope&, const Degrees&);
/// Throws UserError for a key of the plan that changes nothing, since its axis has one rank. A search or a sweep, which
/// varies the ranks, does not ask this.
void refuse_idle_keys(const Scenario&);
/// Lists the divisors of a number, ascending.
std::vector<std::int64_t> divisors(std::int64_t number);

}  // namespace trainyard
