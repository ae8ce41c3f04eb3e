// `trainyard teach switch`.
#include <fmt/format.h>

#include "models/reading/document.hpp"
#include "scenarios/src/lessons/teach_switch.hpp"
#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

struct SwitchFlags {
  int hosts = 4;
  std::string kind = "switch", frames = "0-1,1-0,0-1";
};

int host_of(const std::string& frame, const std::string& word, int hosts) {
  std::int64_t host = -1;
  try {
    host = parse_integer(word);
  } catch (const UserError&) {
  }
  if (host < 0 || host >= hosts)
    throw UserError(fmt::format("--frames {}: two hosts from 0 to {} expected, such as 0-1", frame, hosts - 1));
  return static_cast<int>(host);
}

/// Reads "0-1,1-0". Throws UserError.
std::vector<std::pair<int, int>> frames_of(const SwitchFlags& flags) {
  std::vector<std::pair<int, int>> frames;
  for (const std::string& word : comma_list(flags.frames)) {
    const std::size_t dash = word.find('-');
    const std::string to = dash == std::string::npos ? "" : word.substr(dash + 1);
    frames.emplace_back(host_of(word, word.substr(0, dash), flags.hosts), host_of(word, to, flags.hosts));
    if (frames.back().first == frames.back().second)
      throw UserError(fmt::format("--frames {}: a host sends to another one", word));
  }
  return frames;
}

std::function<LessonView()> switch_lesson(const std::string&, Arguments& arguments) {
  const auto flags = std::make_shared<SwitchFlags>();
  arguments.option("--hosts", flags->hosts, "N", "number of hosts, one at each port, 2 to 16 (default 4)", 2, 16);
  arguments.choice("--kind", flags->kind, {"switch", "hub"}, "switch|hub",
                   "a switch learns the ports of addresses (default); a hub sends every frame to all");
  arguments.option("--frames", flags->frames, "FROM-TO,…", "frames, one after another (default 0-1,1-0,0-1)");
  return [flags] { return lesson_view(teach_switch(flags->hosts, flags->kind == "hub", frames_of(*flags))); };
}

const RegisterTeachTopic registered_switch{
    {"switch", "pass frames through a switch that learns addresses",
     "Shows which hosts get a copy of each frame, and the table of addresses that the switch learns.",
     "teach switch --hosts 4 --frames 0-1,1-0,0-1", switch_lesson}};

}  // namespace
}  // namespace trainyard
