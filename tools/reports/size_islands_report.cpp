// Owned nodes and bought ones of another type in the answer of `trainyard size` on a screen.
#include <fmt/format.h>

#include "models/energy/energy.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/size_cells.hpp"

namespace trainyard {

std::string island_lines(const SizeAnswer& a) {
  std::string text;
  for (const SizeIslands& all : a.islands) text += broken_lines(report_label("owned") + all.reason + "\n");
  return text;
}

std::string island_table(const SizeAnswer& a) {
  std::string text;
  for (const SizeIslands& all : a.islands) {
    TextTable table{"beside " + fmt::format("{} x {}", all.nodes, all.node)};
    for (const char* title : {"to buy", "GPUs to buy", "GPUs", "step", "samples/s", "of two", "days"})
      table.add_column(title);
    table.add_column(a.currency);
    table.add_column("misses", false);
    for (const SizeIsland& row : all.rows) {
      table.rows.push_back({name_of(row.kind)});
      std::vector<std::string>& cells = table.rows.back();
      if (!row.good()) {
        cells.push_back(row.node.empty() ? "-" : row.node);
        cells.resize(table.head.size() - 1, "-");
        cells.push_back(row.error);
        continue;
      }
      cells.push_back(row.bought_nodes > 0 ? fmt::format("{} x {}", row.bought_nodes, row.node) : "-");
      cells.push_back(counted(row.bought_gpus));
      cells.push_back(counted(row.gpus));
      const std::string owned_step =
          row.owned_step_time > 0 ? fmt::format("{:.4g} s, ", row.owned_step_time) : std::string();
      cells.push_back(owned_step + fmt::format("{:.4g} s", row.step_time));
      cells.push_back(fmt::format("{:.4g}", row.samples_per_s));
      cells.push_back(row.of_two_jobs ? fmt::format("{:.1f} %", *row.of_two_jobs * 100) : "-");
      cells.push_back(days_cell(row.days));
      cells.push_back(with_commas(row.cost));
      cells.push_back(row.missed);
    }
    constexpr std::size_t most = 120;  // columns
    text += "\n" + table.text("  ", most) +
            "  bought alone: the owned nodes are left to other work. two jobs: one on each type, each trains a model\n"
            "  of its own on a part of the samples, and both end together. of two: samples/s over those of two jobs\n"
            "  on the same nodes\n";
  }
  return text;
}

}  // namespace trainyard
