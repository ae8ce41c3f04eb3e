#include "scenarios/src/studies/sweeps/answer_key.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"

namespace trainyard {
namespace {

/// Identifies the program by the state of its file.
std::string program_stamp() {
  struct stat status = {};
  if (::stat(program_file().c_str(), &status) != 0) return "";
  return fmt::format("{} {} {}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

void describe(const Node& node, std::string& out) {
  out += fmt::format("{}{}:{};", static_cast<int>(node.kind), node.quoted ? "q" : "", node.scalar);
  for (const Node& item : node.items) describe(item, out);
  for (const auto& [key, field] : node.fields) {
    out += key + "=";
    describe(field, out);
  }
  out += ")";
}

}  // namespace

std::string answer_key(const Scenario& s) {
  static const std::string stamp = program_stamp();
  std::string all = stamp + "\n";
  describe(s.document, all);
  for (const FigureSource& figure : s.sources) all += figure.figure + "=" + figure.value + "\n";
  all += fmt::format("{} {} {} {}", s.network.parameters(), s.network.forward_flops().value,
                     s.network.backward_flops().value, s.network.activations().value);
  for (const double load : s.plan.sharding.expert_loads) all += fmt::format(" {}", load);  // they may be from a file
  return text_hash(all);
}

std::string answer_key(const std::string& base_key, const Node& document) {
  std::string all = base_key + "\n";
  describe(document, all);
  return text_hash(all);
}

}  // namespace trainyard
