// What a compiler's speed is measured by: `tools/test --ci` times this file and gives compile times as multiples of it.
// It must not change, or figures from before and after the change cannot be compared.
#include <Eigen/Dense>
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

double solve(const nlohmann::json& rows) {
  Eigen::MatrixXd a(rows.size(), rows.size());
  Eigen::VectorXd b = Eigen::VectorXd::Ones(a.rows());
  for (Eigen::Index i = 0; i < a.rows(); ++i)
    for (Eigen::Index j = 0; j < a.cols(); ++j) a(i, j) = rows.at(i).at(j).get<double>();
  return a.colPivHouseholderQr().solve(b).norm();
}

std::map<std::string, std::vector<std::function<double(double)>>> functions(const nlohmann::json& names) {
  std::map<std::string, std::vector<std::function<double(double)>>> all;
  for (const auto& [name, factors] : names.items())
    for (const auto& factor : factors) all[name].push_back([f = factor.get<double>()](double x) { return f * x; });
  return all;
}
