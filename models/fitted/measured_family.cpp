#include "models/fitted/measured_family.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/fitted/measured_table.hpp"
#include "models/reading/formula.hpp"
#include "models/reading/shipped_files.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScaledFrom = "scaled_from", kFigure = "figure.";

/// Reads limits whose keys end in `suffix`, such as mean_time for "_time".
ErrorLimits read_error_limits(Fields& fields, const std::string& suffix) {
  return {.mean = fields.number("mean" + suffix, 0, 10, 0),
          .median = fields.number("median" + suffix, 0, 10, 0),
          .p90 = fields.number("p90" + suffix, 0, 10, 0),
          .worst = fields.number("worst" + suffix, 0, 10, 0),
          .rank = fields.number("rank" + suffix, -1, 1, 0)};
}

MeasuredLimits read_limits(const Node* node) {
  MeasuredLimits limits;
  if (!node) return limits;
  Fields fields(*node, "limits");
  limits.time = read_error_limits(fields, "_time");
  fields.read("rank_correlation", limits.time.rank, -1, 1);
  limits.memory = read_error_limits(fields, "_memory");
  limits.efficiency = read_error_limits(fields, "_efficiency");
  limits.mfu = read_error_limits(fields, "_mfu");
  limits.plan_rank = fields.number("plan_rank", -1, 1, 0);
  limits.plan_regret = fields.number("plan_regret", 0, 10, 0);
  fields.finish();
  return limits;
}

/// The cells of a row of a CSV file, with replacements by `words`.
class Cells {
 public:
  Cells(const MeasuredTable& table, const Node* words) : table_(table), words_(words) {}

  const std::string& text(std::string_view column) const {
    const std::string& text = table_.text(table_.column(column));
    const Node* of_column = words_ ? words_->find(column) : nullptr;
    const Node* word = of_column ? of_column->find(text) : nullptr;
    return word ? word->scalar : text;
  }
  /// Returns the template with every `${…}` replaced by its value. A scalar with an empty cell becomes null, and one in
  /// square brackets a list.
  Node substitute(Node node) const {
    if (!fill(node.scalar, node.place)) {
      node.kind = Node::Kind::null;
      node.scalar.clear();
    }
    if (node.scalar.starts_with('[')) {
      Node list = parse_document(node.scalar, table_.name());
      for (Node& item : list.items) item.place = node.place;
      list.place = node.place;
      return list;
    }
    for (Node& item : node.items) item = substitute(std::move(item));
    for (auto& [key, field] : node.fields) {
      fill(key, field.key_place);
      field = substitute(std::move(field));
    }
    return node;
  }

 private:
  const MeasuredTable& table_;
  const Node* words_;

  /// Replaces every `${…}` in `text`. Returns false if a cell is empty.
  bool fill(std::string& text, const Place& place) const {
    for (std::size_t match = 0; (match = text.find("${", match)) != std::string::npos;) {
      const std::size_t end = text.find('}', match);
      if (end == std::string::npos) fail(place, "\"${\" without \"}\": " + text);
      bool empty = false;
      const std::string value = value_of(text.substr(match + 2, end - match - 2), empty);
      if (empty) return false;
      text.replace(match, end - match + 1, value);
      match += value.size();
    }
    return true;
  }
  std::string value_of(const std::string& formula, bool& empty) const {
    if (table_.has_column(formula)) {
      empty = text(formula).empty();
      return text(formula);
    }
    const auto number = [&](std::string_view column) {
      empty |= text(column).empty();
      try {
        return empty ? 1 : parse_number(text(column));
      } catch (const UserError& e) {
        table_.refuse(fmt::format("{}: {}", column, e.what()), table_.column(column));
      }
    };
    return fmt::format("{}", evaluate(formula, number));
  }
};

/// Returns true if the current row meets `where`, which has a text or a list of texts for each column. Null: every row
/// does.
bool is_wanted(const MeasuredTable& table, const Node* where) {
  return !where || std::ranges::all_of(where->fields, [&](const auto& field) {
    const auto& [column, wanted] = field;
    const std::string& text = table.text(table.column(column));
    return wanted.kind == Node::Kind::list
               ? std::ranges::any_of(wanted.items, [&](const Node& item) { return item.scalar == text; })
               : wanted.scalar == text;
  });
}

}  // namespace

MeasuredFamily::MeasuredFamily(const fs::path& path) : file_(path.string()) {
  const Node document = read_document(path);
  Fields root(document, "a family of measured runs");
  name = root.text("family");
  source = root.text("source");
  note = root.text("note", "");
  limits = read_limits(root.child("limits"));
  if (root.has("scenarios")) {
    const fs::path folder = path.parent_path() / root.text("scenarios");
    root.finish();
    scenarios_ = shipped_yaml_files(fs::absolute(folder).lexically_normal().string());
    for (const fs::path& file : scenarios_) ids.push_back(file.stem().string());
    for (std::size_t r = 0; r < ids.size(); ++r) scaled_from.push_back(r);
    return;
  }
  scenario_ = root.required_child("scenario");
  const Node* columns = root.child("columns");
  const Node* table = root.child("table");
  const Node* figure_map = root.child("figures");
  const std::vector<Node>* rows = table ? nullptr : root.list("rows");
  root.finish();
  read_base();
  if (scenario_.kind != Node::Kind::map) fail(scenario_.place, "scenario: a map expected");
  if (!columns || (!rows && !table)) fail(root.place(), "a family of measured runs: \"columns\" and \"rows\" expected");
  if (table)
    read_table(*columns, *table);
  else
    read_rows(*columns, *rows);
  read_figures(figure_map);
  const auto is_measured = [](const std::string& column) { return column.starts_with("measured."); };
  if (!scenario_.find("measured") && std::ranges::none_of(columns_, is_measured)) return;
  set_field(scenario_, "measured.family", Node::scalar_node(name, document.place));
  if (!scenario_.find("measured")->find("source"))
    set_field(scenario_, "measured.source", Node::scalar_node(source, document.place));
}

void MeasuredFamily::read_base() {
  Node changes = scenario_;
  const Node* base = changes.kind == Node::Kind::scalar ? &changes : changes.find("base");
  if (!base) return;
  const fs::path neighbour = fs::path(file_).parent_path() / base->scalar;
  scenario_ = read_document(fs::exists(neighbour) ? neighbour : scenario_file(base->scalar));
  std::erase_if(changes.fields, [](const auto& field) { return field.first == "base"; });
  if (changes.kind == Node::Kind::map) scenario_ = merge_nodes(scenario_, changes);
}

void MeasuredFamily::read_table(const Node& columns, const Node& table) {
  Fields fields(table, "table");
  MeasuredTable csv(fs::path(file_).parent_path() / fields.text("file"));
  const Node *where = fields.child("where"), *words = fields.child("words"), *calibrates = fields.child("calibrates");
  fields.finish();
  Node names = columns;
  names.items.clear();
  for (const auto& [column, text] : columns.fields) names.items.push_back(Node::scalar_node(column, text.place));
  const Cells cells(csv, words);
  std::vector<Node> rows;
  while (csv.next()) {
    if (!is_wanted(csv, where)) continue;
    if (calibrates && is_wanted(csv, calibrates)) calibrating_.insert(rows.size());
    Node& row = rows.emplace_back();
    row.place = {std::make_shared<const std::string>(csv.name()), csv.line(), 1};
    for (const auto& [column, text] : columns.fields) row.items.push_back(cells.substitute(text));
  }
  if (rows.empty()) fail(table.place, "table: no row of " + csv.name() + " meets \"where\"");
  read_rows(names, rows);
}

void MeasuredFamily::read_rows(const Node& columns, const std::vector<Node>& rows) {
  rows_ = rows;
  for (const Node& column : columns.items) columns_.push_back(column.scalar);
  if (columns_.empty() || columns_.front() != "id")
    fail(columns_.empty() ? columns.place : columns.items.front().place, "columns: \"id\" expected as the first");
  std::set<std::string> seen;
  for (const Node& row : rows_) {
    if (row.items.size() != columns_.size())
      fail(row.place, fmt::format("rows: {} cells, but there are {} columns", row.items.size(), columns_.size()));
    ids.push_back(row.items.front().scalar);
    if (!seen.insert(ids.back()).second) fail(row.place, fmt::format("rows: \"{}\" is there twice", ids.back()));
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const Node* from = cell(r, kScaledFrom);
    scaled_from.push_back(from ? row(from->scalar) : r);
  }
}

void MeasuredFamily::read_figures(const Node* figure_map) {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (!columns_[c].starts_with(kFigure)) continue;
    MeasuredFigure& figure = figures.emplace_back();
    figure.name = figure.predicted = columns_[c].substr(kFigure.size());
    figure.column = c;
    const Node* node = figure_map ? figure_map->find(figure.name) : nullptr;
    if (!node) continue;
    Fields fields(*node, "figures." + figure.name);
    figure.predicted = fields.text("predicted", figure.name);
    figure.points = fields.choice("error", {"relative", "points"}, "relative") == "points";
    const Node *limit_map = fields.child("limits"), *aim_map = fields.child("aims");
    if (limit_map && aim_map) fields.refuse("aims", "without limits");
    fields.finish();
    if (!limit_map && !aim_map) continue;
    Fields limit_fields(limit_map ? *limit_map : *aim_map, limit_map ? "limits" : "aims");
    figure.limits = read_error_limits(limit_fields, "");
    figure.limits.aim = aim_map != nullptr;
    limit_fields.finish();
  }
}

const Node* MeasuredFamily::cell(std::size_t row, std::string_view column) const {
  const auto match = std::ranges::find(columns_, column);
  if (match == columns_.end()) return nullptr;
  const Node& cell = rows_[row].items[static_cast<std::size_t>(match - columns_.begin())];
  return cell.kind == Node::Kind::null ? nullptr : &cell;
}

Node MeasuredFamily::scenario(std::size_t row) const {
  if (!scenarios_.empty()) return read_document(scenarios_[row]);
  Node document = scenario_;
  const std::vector<Node>& cells = rows_[row].items;
  for (std::size_t c = 1; c < cells.size(); ++c)
    if (cells[c].kind != Node::Kind::null && columns_[c] != kScaledFrom && !columns_[c].starts_with(kFigure))
      set_field(document, columns_[c], cells[c]);
  document.place = rows_[row].place;
  return document;
}

std::optional<double> MeasuredFamily::measured(std::size_t row, const MeasuredFigure& figure) const {
  const Node& cell = rows_[row].items[figure.column];
  if (cell.kind == Node::Kind::null) return std::nullopt;
  try {
    return parse_number(cell.scalar);
  } catch (const UserError& e) {
    fail(cell.place, fmt::format("figure.{}: {}", figure.name, e.what()));
  }
}

std::size_t MeasuredFamily::row(std::string_view id) const {
  const auto found = std::ranges::find(ids, id);
  if (found != ids.end()) return static_cast<std::size_t>(found - ids.begin());
  std::vector<std::string> some = ids;
  if (!nearest(id, ids) && some.size() > 3) some.resize(3);
  throw UserError(fmt::format("{}: no row \"{}\" among its {}{}", file_, id, ids.size(), hint(id, some)));
}

bool is_measured_family(const Node& document) {
  return document.find("family") && (document.find("rows") || document.find("table") || document.find("scenarios"));
}

Node read_scenario_document(const fs::path& name) {
  const std::string text = name.string();
  const std::size_t match = text.rfind('@');
  std::error_code error;
  if (match != std::string::npos && !fs::exists(name, error)) {
    const MeasuredFamily family(scenario_file(text.substr(0, match)));
    return family.scenario(family.row(std::string_view(text).substr(match + 1)));
  }
  const fs::path path = scenario_file(name);
  Node document = read_document(path);
  if (is_measured_family(document)) {
    const MeasuredFamily family(path);
    fail(document.place, fmt::format("a family of {} measured runs; name the row that you mean, such as {}@{}",
                                     family.ids.size(), text, family.ids.front()));
  }
  return document;
}

}  // namespace trainyard
