#include "scenarios/src/lessons/teach_switch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "sim/json_text.hpp"
#include "sim/units.hpp"

namespace trainyard {

int SwitchLesson::flooded_frames() const {
  return static_cast<int>(std::ranges::count_if(frames, &SwitchedFrame::flooded));
}

int SwitchLesson::copies() const {
  std::size_t sum = 0;
  for (const SwitchedFrame& frame : frames) sum += frame.copies_to.size();
  return static_cast<int>(sum);
}

SwitchLesson teach_switch(int hosts, bool hub, const std::vector<std::pair<int, int>>& frames) {
  SwitchLesson lesson{hosts, hub, {}};
  std::vector<bool> table_ports(static_cast<std::size_t>(hosts));
  for (const auto& [from, to] : frames) {
    SwitchedFrame frame{from, to, hub || !table_ports[static_cast<std::size_t>(to)], {}, {}};
    if (!hub) table_ports[static_cast<std::size_t>(from)] = true;
    for (int host = 0; host < hosts; ++host)
      if (host != from && (frame.flooded || host == to)) frame.copies_to.push_back(host);
    frame.known_ports = table_ports;
    lesson.frames.push_back(std::move(frame));
  }
  return lesson;
}

namespace {

std::string table_in_words(const std::vector<bool>& table_ports) {
  std::vector<std::string> ports;
  for (std::size_t host = 0; host < table_ports.size(); ++host)
    if (table_ports[host]) ports.push_back(fmt::format("{} at port {}", host, host));
  return ports.empty() ? "no table" : fmt::format("{}", fmt::join(ports, ", "));
}

std::vector<LessonCell> host_cells(const SwitchLesson& lesson, const SwitchedFrame& frame) {
  std::vector<LessonCell> cells;
  for (int host = 0; host < lesson.hosts; ++host) {
    const bool copy = std::ranges::find(frame.copies_to, host) != frame.copies_to.end();
    cells.push_back(host == frame.from ? LessonCell{"sends", Tone::blue}
                    : host == frame.to ? LessonCell{"takes", Tone::green}
                    : copy             ? LessonCell{"drops", Tone::orange}
                                       : LessonCell{"", Tone::empty});
  }
  return cells;
}

std::vector<FieldRow> switch_json_rows() {
  return {{"kind", "text", "what passes the frames: switch or hub", ""},
          {"hosts", "number", "number of hosts", ""},
          {"flooded_frames", "number", "number of frames that went to all ports", ""},
          {"copies", "number", "number of copies on the wires to the hosts", ""},
          {"frames", "list", "frames in their order", ""},
          {"frames[].from", "number", "host that sends the frame", ""},
          {"frames[].to", "number", "host that the frame is for", ""},
          {"frames[].flooded", "true|false", "the frame went to all other ports", ""},
          {"frames[].copies_to", "[number]", "hosts that got a copy", ""},
          {"table", "list", "addresses that the switch has learned", ""},
          {"table[].address", "text", "host at the port", ""},
          {"table[].port", "number", "number of the port", ""}};
}
const RegisterJsonReference switch_json_reference{"teach switch", "frames through a switch that learns addresses",
                                                  switch_json_rows};

}  // namespace

LessonView lesson_view(const SwitchLesson& lesson) {
  const char* name = lesson.hub ? "hub" : "switch";
  LessonView view{fmt::format("a {} with {}, {}", name, counted_noun(lesson.hosts, "host"),
                              counted_noun(static_cast<std::int64_t>(lesson.frames.size()), "frame")),
                  "A row per frame: who sends it, who takes it, and who gets a copy that it drops",
                  {}};
  LessonGrid grid;
  nlohmann::ordered_json frames = nlohmann::ordered_json::array();
  for (int host = 0; host < lesson.hosts; ++host) grid.head.push_back(fmt::format("host {}", host));
  view.figures = {.head = {"frame", "ports", "table after it"}};
  for (const SwitchedFrame& frame : lesson.frames) {
    const std::string pair = fmt::format("{} to {}", frame.from, frame.to);
    grid.rows.push_back({pair, host_cells(lesson, frame)});
    view.figures.rows.push_back({pair, frame.flooded ? "all others" : "one", table_in_words(frame.known_ports)});
    frames.push_back(
        {{"from", frame.from}, {"to", frame.to}, {"flooded", frame.flooded}, {"copies_to", frame.copies_to}});
  }
  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  const std::vector<bool> table_ports = lesson.frames.empty() ? std::vector<bool>() : lesson.frames.back().known_ports;
  for (std::size_t host = 0; host < table_ports.size(); ++host)
    if (table_ports[host]) table.push_back({{"address", fmt::format("host {}", host)}, {"port", host}});
  view.frames = {LessonFrame{.grids = {std::move(grid)},
                             .legend = {{"", "sends", Tone::blue},
                                        {"", "takes its frame", Tone::green},
                                        {"", "drops a copy for another host", Tone::orange}}}};
  view.sums = {fmt::format("{} of {} flooded, {} on the wires to the hosts", lesson.flooded_frames(),
                           counted_noun(static_cast<std::int64_t>(lesson.frames.size()), "frame"),
                           counted_noun(lesson.copies(), "copy", "copies"))};
  view.json = json_text(nlohmann::ordered_json{{"kind", name},
                                               {"hosts", lesson.hosts},
                                               {"flooded_frames", lesson.flooded_frames()},
                                               {"copies", lesson.copies()},
                                               {"frames", frames},
                                               {"table", table}},
                        2);
  return view;
}

}  // namespace trainyard
