#include "scenarios/src/lessons/teach_server.hpp"

#include <nlohmann/json.hpp>

namespace trainyard {
namespace {

/// Kernels, messages of workers, and what servers apply.
class Spans : public Observer {
 public:
  Spans(int workers, int servers) : workers_(workers), actors_(static_cast<std::size_t>(workers + servers)) {}
  void finished(const OpRun& run) override {
    const Op& op = *run.op;
    if (static_cast<std::size_t>(op.actor) >= actors_.size() || run.ended <= run.started) return;
    const bool worker = op.actor < workers_;
    ServerSpan span{ServerSpan::What::compute, op.actor, run.started.value, run.ended.value};
    if (op.kind == Kind::send)
      span.what = ServerSpan::What::push;
    else if (op.kind == Kind::recv)
      span.what = ServerSpan::What::pull;
    else if (!worker)
      span.what = ServerSpan::What::apply;
    if (!worker && span.what != ServerSpan::What::apply) return;  // the workers show their messages
    if (!worker)
      span.worker = op.effect.call == static_cast<std::uint16_t>(ServerCall::update) ? -1 : op.effect.read.chunk;
    actors_[op.actor].push_back(span);
  }
  const std::vector<std::vector<ServerSpan>>& of_actors() const { return actors_; }

 private:
  int workers_;
  std::vector<std::vector<ServerSpan>> actors_;
};

ServerCell cell_of(const ServerQuestion& q) {
  ServerCell cell;
  cell.workers = q.workers;
  cell.servers = q.servers;
  cell.keys = q.keys;
  cell.steps = q.steps;
  cell.gradient = cell.link * Seconds{q.push};
  cell.compute = Seconds{q.compute};
  cell.apply = Seconds{q.apply};
  cell.slower = q.slower;
  cell.change = [&q](ServerPlan& plan) {
    plan.consistency = q.consistency;
    plan.staleness = q.staleness;
    plan.backup_workers = q.backups;
  };
  return cell;
}

}  // namespace

const char* name_of(ServerSpan::What what) {
  static constexpr const char* names[] = {"compute", "push", "pull", "apply"};
  return names[static_cast<std::size_t>(what)];
}

ServerLesson teach_server(const ServerQuestion& q) {
  ServerCellRun run(cell_of(q));
  Spans spans(q.workers, q.servers);
  run.run({&spans});
  ServerLesson lesson{q.workers,
                      q.servers,
                      q.steps,
                      q.staleness,
                      q.backups,
                      q.consistency,
                      q.compute,
                      q.push,
                      q.apply,
                      run.end().value,
                      spans.of_actors(),
                      run.board().staleness(),
                      run.board().steps_per_s()};
  lesson.keys = q.keys;
  return lesson;
}

nlohmann::ordered_json server_report(const ServerLesson& lesson) {
  nlohmann::ordered_json j{{"workers", lesson.workers},
                           {"servers", lesson.servers},
                           {"consistency", consistency_names()[static_cast<std::size_t>(lesson.consistency)]},
                           {"staleness_bound", lesson.staleness_bound},
                           {"backup_workers", lesson.backups},
                           {"steps", lesson.steps},
                           {"compute", lesson.compute},
                           {"push", lesson.push},
                           {"apply", lesson.apply},
                           {"time", lesson.end},
                           {"steps_per_slot", lesson.steps_per_slot},
                           {"staleness", nlohmann::ordered_json::object()},
                           {"actors", nlohmann::ordered_json::array()}};
  for (const auto& [of, count] : lesson.staleness) j["staleness"][std::to_string(of)] = count;
  for (std::size_t a = 0; a < lesson.actors.size(); ++a) {
    const bool worker = a < static_cast<std::size_t>(lesson.workers);
    nlohmann::ordered_json spans = nlohmann::ordered_json::array();
    for (const ServerSpan& s : lesson.actors[a]) {
      nlohmann::ordered_json& span =
          spans.emplace_back(nlohmann::ordered_json{{"what", name_of(s.what)}, {"begin", s.begin}, {"end", s.end}});
      if (!worker && s.worker >= 0) span["worker"] = s.worker;
    }
    j["actors"].push_back({{"name", worker ? "worker " + std::to_string(a)
                                           : "server " + std::to_string(a - static_cast<std::size_t>(lesson.workers))},
                           {"spans", spans}});
  }
  return j;
}

}  // namespace trainyard
