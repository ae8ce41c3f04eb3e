#include "tools/verbs/validation/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/units.hpp"
#include "tools/reports/html_page.hpp"

namespace trainyard {
namespace {

std::string cell(const ErrorFigure& figure, const ErrorSet& errors, bool in_points) {
  const double value = errors.*figure.value;
  if (figure.value == &ErrorSet::rank_correlation) return fmt::format("{:.3f}", value);
  if (figure.value == &ErrorSet::signed_mean)
    return in_points ? fmt::format("{:+.1f}", value * 100) : signed_percent(value);
  return in_points ? fmt::format("{:.1f}", value * 100) : percent(value);
}

std::string count_of(const JudgedSet& set) {
  return set.runs == 0 || set.runs == set.errors.n ? fmt::format("{}", set.errors.n)
                                                   : fmt::format("{} of {}", set.errors.n, set.runs);
}

}  // namespace

bool ValidationRequest::prints() const {
  return std::ranges::none_of(std::vector{json, html, csv, svg}, [](const std::string& file) { return file == "-"; });
}

std::string error_table(const std::vector<JudgedSet>& sets, const std::vector<std::string>& figures, const char* none,
                        bool in_points) {
  TextTable table{"set", ">n"};
  for (const std::string& figure : figures) table.add_column(figure);
  table.add_column("limit", false);
  for (const JudgedSet& set : sets) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {(set.part ? "  " : "") + set.errors.name, count_of(set)};
    for (const std::string& name : figures)
      row.push_back(cell(*std::ranges::find(kErrorFigures, name, &ErrorFigure::name), set.errors, in_points));
    const std::string limits = words_of(set.limits, in_points ? "points" : "%");
    const bool good = holds(set.limits, set.errors);
    row.push_back(limits.empty()   ? none
                  : set.limits.aim ? "aim: " + limits + (good ? ": reached" : ": missed")
                                   : limits + (good ? ": holds" : ": FAILS"));
  }
  return table.text();
}

int report(const ValidationRequest& request, const std::string& title, const std::string& text,
           const std::vector<JudgedSet>& sets, const std::string& unfinished,
           const std::vector<std::pair<std::string, std::string>>& refused) {
  if (request.prints()) print(text);
  const auto as_json = [&](bool points) {
    nlohmann::json all = nlohmann::json::array();
    for (const JudgedSet& set : sets) all.push_back(to_json(set, points));
    nlohmann::json errors{{"sets", std::move(all)}};
    if (!unfinished.empty()) errors["unfinished"] = unfinished;
    for (const auto& [run, reason] : refused) errors["refused"].push_back({{"run", run}, {"reason", reason}});
    return errors;
  };
  if (!request.html.empty())
    write_atomically(request.html,
                     chart_page(title, {{"title", title}, {"answer", as_json(true)}}, {page_script::validation()}));
  write_json(request.json, as_json(request.points));
  return std::ranges::all_of(sets, &JudgedSet::pass) ? kGood : kFailsLimit;
}

void report(const ValidationRequest& request, const std::string& text, const nlohmann::ordered_json& json) {
  if (request.prints()) print(text);
  write_json(request.json, json);
}

}  // namespace trainyard
