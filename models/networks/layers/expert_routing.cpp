#include "models/networks/layers/expert_routing.hpp"

#include <algorithm>

namespace trainyard {
namespace {

/// Probability that `draws` of `all`, without putting back, miss each of `marked`.
double none_of(double marked, double all, double draws) {
  double missed = 1;
  for (double drawn = 0; drawn < draws; ++drawn) missed *= std::max(0.0, all - marked - drawn) / (all - drawn);
  return missed;
}

/// Sets of `chosen` among `all`; none where there are not so many.
double sets(double all, double chosen) {
  double count = chosen <= all ? 1 : 0;
  for (double i = 0; i < chosen && count > 0; ++i) count *= (all - i) / (i + 1);
  return count;
}

}  // namespace

double parts_of_token(const ExpertRouting& r, double parts) {
  const double of_group = r.experts / r.groups, candidates = of_group * r.groups_per_token;
  if (parts >= r.groups)
    return parts * r.groups_per_token / r.groups * (1 - none_of(r.experts / parts, candidates, r.per_token));
  // A part holds several groups, of which some are among the token's.
  const double held = r.groups / parts, ways = sets(r.groups, r.groups_per_token);
  double hit = 0;
  for (double chosen = 0; chosen <= std::min(held, r.groups_per_token); ++chosen)
    hit += sets(held, chosen) * sets(r.groups - held, r.groups_per_token - chosen) / ways *
           (1 - none_of(chosen * of_group, candidates, r.per_token));
  return parts * hit;
}

}  // namespace trainyard
