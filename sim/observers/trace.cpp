#include "sim/observers/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "sim/error.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

constexpr std::string_view kEnd = "\n]}\n";
constexpr std::size_t kFirstRow = 1'000'000'000;  // number of the first process that is no actor

const char* category(Kind kind) {
  static constexpr const char* names[] = {"compute", "memory", "send", "recv", "delay", "mark", "join", "series"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string chrome_trace(const Timeline& timeline, const MemoryUse& memory, const Machine& machine, const Names& names,
                         const std::vector<std::string>& streams, const std::function<bool(Actor)>& shown) {
  std::string out;
  const auto& groups = names.groups();
  const auto left_out = [&shown](Actor actor) { return shown && !shown(actor); };
  std::set<std::pair<Actor, Stream>> threads;
  for (const OpRecord& r : timeline.records())
    if (!left_out(r.actor)) threads.emplace(r.actor, r.stream);

  out += fmt::format("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  const char* comma = "";
  Actor named = -1;
  for (const auto& [actor, stream] : threads) {
    if (actor != named)
      out += fmt::format("{}{{\"ph\": \"M\", \"pid\": {}, \"name\": \"process_name\", \"args\": {{\"name\": {}}}}}",
                         comma, actor, json_string(machine.actor_name(actor)));
    named = actor;
    const std::string name = stream < streams.size() ? streams[stream] : fmt::format("stream {}", stream);
    out += fmt::format(
        ",\n{{\"ph\": \"M\", \"pid\": {}, \"tid\": {}, \"name\": \"thread_name\", \"args\": {{\"name\": {}}}}}", actor,
        stream, json_string(name));
    comma = ",\n";
  }
  for (const OpRecord& r : timeline.records()) {
    if (r.actor < 0 || r.kind == Kind::mark || left_out(r.actor)) continue;
    const std::string& group = r.group < groups.size() ? groups[r.group].name : "";
    const double launched = std::min(r.ended, r.started + r.launch.wait.value);
    const auto begin_span = [&](double from, double to, const std::string& name, const char* kind) {
      out += fmt::format(
          "{}{{\"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, \"name\": {}, \"cat\": \"{}\", "
          "\"args\": {{\"group\": {}",
          comma, r.actor, r.stream, from * 1e6, (to - from) * 1e6, json_string(name), kind, json_string(group));
      comma = ",\n";
    };
    if (launched > r.started) {
      begin_span(r.started, launched, "wait for the host", category(Kind::delay));
      out += "}}";
    }
    begin_span(launched, r.ended, names[r.name], category(r.kind));
    if (r.kind == Kind::send || r.kind == Kind::recv) {
      const std::string& detail = r.group < groups.size() ? groups[r.group].detail : "";
      out += fmt::format(", \"bytes\": {}, \"peer\": {}, \"path\": {}, \"algorithm\": {}, \"waited_us\": {}", r.bytes,
                         json_string(r.peer < 0 ? "" : machine.actor_name(r.peer)), json_string(r.path),
                         json_string(detail), (r.started - r.posted) * 1e6);
    }
    out += fmt::format("}}}}");
  }
  for (const auto& [actor, stream] : threads) {
    if (stream != 0) continue;
    for (const MemoryUse::Sample& s : memory.samples(actor))
      out +=
          fmt::format("{}{{\"ph\": \"C\", \"pid\": {}, \"ts\": {}, \"name\": \"memory\", \"args\": {{\"bytes\": {}}}}}",
                      comma, actor, s.time * 1e6, s.bytes);
  }
  return out + std::string(kEnd);
}

std::string with_spans(std::string trace, const std::vector<TraceSpan>& spans) {
  if (!trace.ends_with(kEnd)) throw InternalError("a trace has another end");
  trace.resize(trace.size() - kEnd.size());
  std::vector<std::string> rows;
  for (const TraceSpan& span : spans) {
    const auto row = std::ranges::find(rows, span.row);
    const std::size_t pid = kFirstRow + static_cast<std::size_t>(row - rows.begin());
    if (row == rows.end()) {
      rows.push_back(span.row);
      trace += fmt::format(",\n{{\"ph\": \"M\", \"pid\": {}, \"name\": \"process_name\", \"args\": {{\"name\": {}}}}}",
                           pid, json_string(span.row));
    }
    trace += fmt::format(",\n{{\"ph\": \"X\", \"pid\": {}, \"tid\": 0, \"ts\": {}, \"dur\": {}, \"name\": {}}}", pid,
                         span.begin.value * 1e6, (span.end - span.begin).value * 1e6, json_string(span.name));
  }
  return trace + std::string(kEnd);
}

}  // namespace trainyard
