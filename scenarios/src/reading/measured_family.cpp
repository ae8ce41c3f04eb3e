#include "scenarios/src/reading/measured_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/reading/shipped_files.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScaledFrom = "scaled_from";

MeasuredLimits read_limits(const Node* node) {
  MeasuredLimits limits;
  if (!node) return limits;
  Fields fields(*node, "limits");
  limits.mean_time = fields.number("mean_time", 0, 10, 0);
  limits.mean_memory = fields.number("mean_memory", 0, 10, 0);
  limits.worst_memory = fields.number("worst_memory", 0, 10, 0);
  limits.mean_efficiency = fields.number("mean_efficiency", 0, 1, 0);
  limits.rank_correlation = fields.number("rank_correlation", -1, 1, 0);
  limits.plan_rank = fields.number("plan_rank", -1, 1, 0);
  limits.plan_regret = fields.number("plan_regret", 0, 10, 0);
  fields.finish();
  return limits;
}

}  // namespace

MeasuredFamily::MeasuredFamily(const fs::path& path) : file_(path.string()) {
  const Node document = read_document(path);
  Fields root(document, "a family of measured runs");
  name = root.text("family");
  const std::string source = root.text("source");
  limits = read_limits(root.child("limits"));
  scenario_ = root.required_child("scenario");
  if (scenario_.kind != Node::Kind::map) fail(scenario_.place, "scenario: a map expected");
  const std::vector<Node>* columns = root.list("columns");
  const std::vector<Node>* rows = root.list("rows");
  root.finish();
  if (!columns || columns->empty() || !rows)
    fail(root.place(), "a family of measured runs: \"columns\" and \"rows\" expected");
  rows_ = *rows;
  for (const Node& column : *columns) columns_.push_back(column.scalar);
  if (columns_.front() != "id") fail(columns->front().place, "columns: \"id\" expected as the first");
  std::set<std::string> seen;
  for (const Node& row : rows_) {
    if (row.items.size() != columns_.size())
      fail(row.place, fmt::format("rows: {} cells, but there are {} columns", row.items.size(), columns_.size()));
    ids.push_back(row.items.front().scalar);
    if (!seen.insert(ids.back()).second) fail(row.place, fmt::format("rows: \"{}\" is there twice", ids.back()));
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    scaled_from.push_back(r);
    for (std::size_t c = 1; c < columns_.size(); ++c)
      if (const Node& cell = rows_[r].items[c]; columns_[c] == kScaledFrom && cell.kind != Node::Kind::null)
        scaled_from.back() = row(cell.scalar);
  }
  set_field(scenario_, "measured.family", Node::of_text(name, document.place));
  if (!scenario_.find("measured")->find("source"))
    set_field(scenario_, "measured.source", Node::of_text(source, document.place));
}

Node MeasuredFamily::scenario(std::size_t row) const {
  Node document = scenario_;
  const std::vector<Node>& cells = rows_[row].items;
  for (std::size_t c = 1; c < cells.size(); ++c)
    if (cells[c].kind != Node::Kind::null && columns_[c] != kScaledFrom) set_field(document, columns_[c], cells[c]);
  document.place = rows_[row].place;
  return document;
}

bool MeasuredFamily::measures_memory() const {
  return std::any_of(columns_.begin(), columns_.end(), [](const std::string& column) {
    return column == "measured.peak_memory" || column == "measured.reserved_memory";
  });
}

std::size_t MeasuredFamily::row(std::string_view id) const {
  const auto found = std::find(ids.begin(), ids.end(), id);
  if (found != ids.end()) return static_cast<std::size_t>(found - ids.begin());
  std::vector<std::string> some = ids;
  if (!nearest(id, ids) && some.size() > 3) some.resize(3);
  throw UserError(fmt::format("{}: no row \"{}\" among its {}{}", file_, id, ids.size(), hint(id, some)));
}

bool is_measured_family(const Node& document) { return document.find("family") && document.find("rows"); }

Node read_scenario_document(const fs::path& asked) {
  const std::string text = asked.string();
  const std::size_t at = text.rfind('@');
  std::error_code error;
  if (at != std::string::npos && !fs::exists(asked, error)) {
    const MeasuredFamily family(scenario_file(text.substr(0, at)));
    return family.scenario(family.row(std::string_view(text).substr(at + 1)));
  }
  const fs::path path = scenario_file(asked);
  Node document = read_document(path);
  if (is_measured_family(document)) {
    const MeasuredFamily family(path);
    fail(document.place, fmt::format("a family of {} measured runs; name the row that you mean, such as {}@{}",
                                     family.ids.size(), text, family.ids.front()));
  }
  return document;
}

}  // namespace trainyard
