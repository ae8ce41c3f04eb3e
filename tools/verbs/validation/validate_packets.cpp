#include "tools/verbs/validation/validate_packets.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/packet_study.hpp"
#include "sim/json_text.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/output.hpp"
#include "sim/units.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {

int validate_packets(const std::string& json_file) {
  std::vector<PacketCase> cases;
  {
    ProgressLine progress;
    cases = packet_cases(
        [&](std::size_t ended, std::size_t all) { progress.show(fmt::format("{} of {} cases", ended, all)); });
  }
  if (!json_file.empty()) {
    nlohmann::ordered_json j = nlohmann::ordered_json::object();
    for (const PacketCase& one : cases)
      j["cases"].push_back({{"id", one.name},
                            {"what", one.what},
                            {"packets_s", one.packets},
                            {"flow_s", one.flows},
                            {"difference", one.difference()},
                            {"shows", one.shows}});
    write_atomically(json_file, json_text(j, 2) + "\n");
  }
  if (json_file == "-") return kGood;
  TextTable table{
      {"case", "what", "packets", "flows", "packets longer by", "why"}, {false, false, true, true, true, false}, {}};
  for (const PacketCase& one : cases)
    table.rows.push_back({one.name, one.what, show(Seconds{one.packets}), show(Seconds{one.flows}),
                          signed_percent(one.difference()), one.shows});
  fmt::print(
      "TCP packet by packet (ns-3 in SimGrid, --transport packets) beside the default transport, which shares links "
      "max-min fair.\n\n{}\nPackets: {}.\n",
      table.text(), packets_in_words());
  return kGood;
}

}  // namespace trainyard
