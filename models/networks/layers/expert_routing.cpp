#include "models/networks/layers/expert_routing.hpp"

#include <algorithm>

namespace trainyard {
namespace {

/// Probability that `draws` draws from `all` without replacement miss all of `marked`.
double none_of(double marked, double all, double draws) {
  double missed = 1;
  for (double draw = 0; draw < draws; ++draw) missed *= std::max(0.0, all - marked - draw) / (all - draw);
  return missed;
}

/// Binomial coefficient: the number of sets of `chosen` among `all`, or 0 if `chosen` is larger.
double binomial(double all, double chosen) {
  double count = chosen <= all ? 1 : 0;
  for (double i = 0; i < chosen && count > 0; ++i) count *= (all - i) / (i + 1);
  return count;
}

}  // namespace

double parts_of_token(const ExpertRouting& r, double parts) {
  const double group_size = r.experts / r.groups, candidates = group_size * r.groups_per_token;
  if (parts >= r.groups)
    return parts * r.groups_per_token / r.groups * (1 - none_of(r.experts / parts, candidates, r.per_token));
  // A part holds several groups, some of which may be chosen for the token.
  const double part_groups = r.groups / parts, choices = binomial(r.groups, r.groups_per_token);
  double hit = 0;
  for (double chosen = 0; chosen <= std::min(part_groups, r.groups_per_token); ++chosen)
    hit += binomial(part_groups, chosen) * binomial(r.groups - part_groups, r.groups_per_token - chosen) / choices *
           (1 - none_of(chosen * group_size, candidates, r.per_token));
  return parts * hit;
}

}  // namespace trainyard
