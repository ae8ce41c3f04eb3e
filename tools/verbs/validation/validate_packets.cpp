#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/packet_study.hpp"
#include "sim/observers/progress.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {

int validate_packets(const ValidationRequest& request) {
  std::vector<PacketCase> cases;
  {
    ProgressLine progress;
    cases = packet_cases(
        [&](std::size_t ended, std::size_t all) { progress.show(fmt::format("{} of {} cases", ended, all)); });
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  TextTable table{"case", "what", ">packets", ">flows", ">packets longer by", "why"};
  for (const PacketCase& one : cases) {
    json["cases"].push_back({{"id", one.name},
                             {"what", one.what},
                             {"packets_s", one.packets},
                             {"flow_s", one.flows},
                             {"difference", one.difference()},
                             {"shows", one.shows}});
    table.rows.push_back({one.name, one.what, show(Seconds{one.packets}), show(Seconds{one.flows}),
                          signed_percent(one.difference()), one.shows});
  }
  report(request,
         fmt::format("TCP packet by packet (ns-3 in SimGrid, --transport packets) beside the default transport, which "
                     "shares links max-min fair.\n\n{}\nPackets: {}.\n",
                     table.text(), packets_in_words()),
         json);
  return kGood;
}

}  // namespace trainyard
