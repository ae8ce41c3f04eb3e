#pragma once

namespace trainyard {

/// How a router chooses the experts of a token: the best of some groups, into which all experts are divided (DeepSeek-AI
/// 2024, node-limited routing).
struct ExpertRouting {
  double experts = 0, per_token = 0;
  double groups = 1, groups_per_token = 1;
};

/// Where the experts are divided into so many equal parts: how many of these have experts of a token, in the mean. All
/// groups, and all experts of those, are chosen equally often.
double parts_of_token(const ExpertRouting&, double parts);

}  // namespace trainyard
