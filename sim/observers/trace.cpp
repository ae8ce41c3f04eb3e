#include "sim/observers/trace.hpp"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

namespace trainyard {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

const char* category(Kind kind) {
  switch (kind) {
    case Kind::compute:
      return "compute";
    case Kind::local:
      return "memory";
    case Kind::send:
      return "send";
    case Kind::recv:
      return "recv";
    case Kind::delay:
      return "delay";
    case Kind::mark:
      return "mark";
    case Kind::join:
      return "join";
  }
  return "";
}

}  // namespace

std::string chrome_trace(const Timeline& timeline, const MemoryUse& memory, const Machine& machine, const Names& names,
                         const std::vector<std::string>& streams, const std::function<bool(Actor)>& shown) {
  fmt::memory_buffer out;
  auto to = std::back_inserter(out);
  const auto& groups = names.groups();
  const auto left_out = [&shown](Actor actor) { return shown && !shown(actor); };
  std::set<std::pair<Actor, Stream>> threads;
  for (const OpRecord& r : timeline.records())
    if (!left_out(r.actor)) threads.emplace(r.actor, r.stream);

  fmt::format_to(to, "{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  const char* comma = "";
  Actor named = -1;
  for (const auto& [actor, stream] : threads) {
    if (actor != named)
      fmt::format_to(to, "{}{{\"ph\": \"M\", \"pid\": {}, \"name\": \"process_name\", \"args\": {{\"name\": {}}}}}",
                     comma, actor, quoted(machine.actor_name(actor)));
    named = actor;
    const std::string name = stream < streams.size() ? streams[stream] : fmt::format("stream {}", stream);
    fmt::format_to(
        to, ",\n{{\"ph\": \"M\", \"pid\": {}, \"tid\": {}, \"name\": \"thread_name\", \"args\": {{\"name\": {}}}}}",
        actor, stream, quoted(name));
    comma = ",\n";
  }
  for (const OpRecord& r : timeline.records()) {
    if (r.actor < 0 || r.kind == Kind::mark || left_out(r.actor)) continue;
    const std::string& group = r.group < groups.size() ? groups[r.group].name : "";
    fmt::format_to(to,
                   "{}{{\"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, \"name\": {}, \"cat\": "
                   "\"{}\", \"args\": {{\"group\": {}",
                   comma, r.actor, r.stream, r.started * 1e6, (r.ended - r.started) * 1e6, quoted(names[r.name]),
                   category(r.kind), quoted(group));
    if (r.kind == Kind::send || r.kind == Kind::recv) {
      const std::string& detail = r.group < groups.size() ? groups[r.group].detail : "";
      fmt::format_to(to, ", \"bytes\": {}, \"peer\": {}, \"path\": {}, \"algorithm\": {}, \"waited_us\": {}", r.bytes,
                     quoted(r.peer < 0 ? "" : machine.actor_name(r.peer)), quoted(r.path), quoted(detail),
                     (r.started - r.posted) * 1e6);
    }
    fmt::format_to(to, "}}}}");
    comma = ",\n";
  }
  for (const auto& [actor, stream] : threads) {
    if (stream != 0) continue;
    for (const MemoryUse::Sample& s : memory.samples(actor))
      fmt::format_to(to,
                     "{}{{\"ph\": \"C\", \"pid\": {}, \"ts\": {}, \"name\": \"memory\", \"args\": {{\"bytes\": {}}}}}",
                     comma, actor, s.time * 1e6, s.bytes);
  }
  fmt::format_to(to, "\n]}}\n");
  return fmt::to_string(out);
}

}  // namespace trainyard
