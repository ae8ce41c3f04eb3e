#pragma once
#include <cmath>
#include <cstdint>
#include <optional>

#include "topologies/analysis/clos_design.hpp"

namespace trainyard {

/// What the searches of two and three levels share.
class ClosSearch {
 protected:
  explicit ClosSearch(const ClosRequest& request)
      : request_(request), ports_(request.ports), r_(request.oversubscription) {}

  const ClosRequest& request_;
  const std::int64_t ports_;
  const double r_;
  std::optional<ClosDesign> best_;

  std::int64_t limit() const { return best_ ? best_->switches : INT64_MAX; }  ///< no more switches
  void offer(ClosDesign);                                                     ///< keeps the better one
};

/// The best design of exactly two or three levels; nothing where there is none.
std::optional<ClosDesign> two_level_clos(const ClosRequest&);
std::optional<ClosDesign> three_level_clos(const ClosRequest&);

constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
/// ⌈links / r⌉; the margin is for r like 1.2, which is no binary fraction.
inline std::int64_t reduced(double links, double r) { return static_cast<std::int64_t>(std::ceil(links / r - 1e-9)); }

/// Hosts that a leaf can have: the rest of its ports go up.
std::int64_t most_hosts_of_leaf(std::int64_t ports, double oversubscription);
/// Fewer switches, else fewer levels, else fewer links.
bool better(const ClosDesign&, const std::optional<ClosDesign>&);
/// Sums of the levels.
void total_parts(ClosDesign&, const ClosRequest&);

}  // namespace trainyard
