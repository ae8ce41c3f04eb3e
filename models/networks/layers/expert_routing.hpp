#pragma once

namespace trainyard {

/// Routing of a token to experts. All experts are divided into groups, and a router chooses the best experts in the
/// best groups (DeepSeek-AI 2024, node-limited routing).
struct ExpertRouting {
  double experts = 0, per_token = 0;
  double groups = 1, groups_per_token = 1;
};

/// Divides the experts into `parts` equal parts and returns the mean number of parts that have experts of a token. All
/// groups, and all experts in them, are chosen equally often.
double parts_of_token(const ExpertRouting&, double parts);

}  // namespace trainyard
