#include "scenarios/running/result.hpp"

#include <nlohmann/json.hpp>

namespace trainyard {

using nlohmann::json;

namespace {

void add_replicas(json& j, const Result& r) {
  j["throughput"] = r.samples_per_s;
  json& replicas = j["replicas"] = json::object();
  if (r.replicas.local_steps > 0) replicas["local_steps"] = r.replicas.local_steps;
  if (r.replicas.delay > 0) {
    replicas["delay"] = r.replicas.delay;
    j["staleness"] = {{std::to_string(r.replicas.delay), r.replicas.late_gradients}};
  }
  if (r.replicas.gossip.empty()) return;
  replicas["gossip"] = r.replicas.gossip;
  replicas["neighbours"] = r.replicas.neighbours;
  replicas["spectral_gap"] = r.replicas.spectral_gap > 0 ? json(r.replicas.spectral_gap) : json(nullptr);
}

void read_replicas(Result& r, const json& j) {
  const auto replicas = j.find("replicas");
  if (replicas == j.end()) return;
  r.replicas.local_steps = replicas->value("local_steps", 0);
  r.replicas.delay = replicas->value("delay", 0);
  if (r.replicas.delay > 0) r.replicas.late_gradients = j.at("staleness").at(std::to_string(r.replicas.delay));
  if (!replicas->contains("gossip")) return;
  r.replicas.gossip = replicas->at("gossip");
  r.replicas.neighbours = replicas->at("neighbours");
  if (const json& gap = replicas->at("spectral_gap"); !gap.is_null()) r.replicas.spectral_gap = gap;
}

}  // namespace

json to_json(const Result& r) {
  json j = {
      {"scenario", r.scenario},
      {"step_time_s", r.step_time},
      {"samples_per_s", r.samples_per_s},
      {"tokens_per_s", r.tokens_per_s},
      {"tokens_per_s_per_gpu", r.tokens_per_s_per_gpu},
      {"tflops_per_gpu", r.tflops_per_gpu},
      {"mfu", r.mfu},
      {"hfu", r.hfu},
      {"breakdown_s",
       {{"compute", r.breakdown.compute},
        {"exposed_communication", r.breakdown.exposed_communication},
        {"bubble", r.breakdown.bubble},
        {"optimizer", r.breakdown.optimizer},
        {"input", r.breakdown.input},
        {"framework", r.breakdown.framework},
        {"other", r.breakdown.other}}},
      {"breakdown_rank", r.breakdown.rank},
      {"memory_bytes",
       {{"capacity", r.memory.capacity},
        {"peak", r.memory.peak},
        {"parameters", r.memory.parameters},
        {"gradients", r.memory.gradients},
        {"optimizer", r.memory.optimizer},
        {"activations", r.memory.activations},
        {"buffers", r.memory.buffers},
        {"stage", 0},
        {"rank", r.memory.rank}}},
      {"fits", r.fits},
      {"critical_path_s", r.critical_path},
      {"bottleneck", {{"resource", r.bottleneck}, {"share", r.bottleneck_share}}},
      {"traffic_bytes",
       {{"by_link_kind", r.bytes_by_link_kind},
        {"sent_per_rank_max", r.bytes_sent_per_rank_max},
        {"total", r.bytes_total}}},
      {"fold", {{"ranks", r.ranks}, {"classes", r.ranks}}},
      {"events", r.operations},
      {"messages", r.messages},
      {"late_by_look_ahead", r.late_by_look_ahead},
      {"wall_s", r.wall_s},
  };
  if (!r.all_reduce.algorithm.empty())
    j["all_reduce"] = {{"algorithm", r.all_reduce.algorithm},
                       {"channels", r.all_reduce.channels},
                       {"fidelity", r.all_reduce.fidelity}};
  for (const auto& tried : r.all_reduce.tried)
    j["all_reduce"]["tuned"].push_back({{"algorithm", tried.algorithm},
                                        {"channels", tried.channels},
                                        {"size_bytes", r.all_reduce.tried_size},
                                        {"time_s", tried.seconds}});
  if (r.input.used) {
    j["starved_share"] = r.input.starved_share;
    j["input"] = {{"storage_busy_share", r.input.storage_busy},
                  {"decode_busy_share", r.input.decode_busy},
                  {"read_bytes", r.input.read},
                  {"from_cache_share", r.input.from_cache},
                  {"host_bytes", r.input.host_bytes}};
  }
  if (!r.stages.empty()) j["memory_bytes"]["stage"] = r.memory.stage;
  for (const Result::StageMemory& m : r.stages)
    j["memory_bytes"]["stages"].push_back({{"rank", m.rank},
                                           {"peak", m.peak},
                                           {"parameters", m.parameters},
                                           {"gradients", m.gradients},
                                           {"optimizer", m.optimizer},
                                           {"activations", m.activations},
                                           {"buffers", m.buffers}});
  if (r.host_memory.peak > 0) {
    j["host_memory_bytes"] = {{"capacity", r.host_memory.capacity},
                              {"peak", r.host_memory.peak},
                              {"parameters", r.host_memory.parameters},
                              {"gradients", r.host_memory.gradients},
                              {"optimizer", r.host_memory.optimizer},
                              {"buffers", r.host_memory.buffers},
                              {"node", r.host_memory.node}};
    j["drive_bytes"] = {{"capacity", r.drive.capacity}, {"peak", r.drive.peak}, {"node", r.drive.node}};
  }
  if (r.servers.used()) {
    j["throughput"] = r.samples_per_s;
    j["staleness"] = json::object();
    for (const auto& [of, count] : r.servers.staleness) j["staleness"][std::to_string(of)] = count;
    j["waits_s"] = r.servers.waits;
    j["servers"] = {{"workers", r.servers.workers},
                    {"servers", r.servers.servers},
                    {"consistency", r.servers.consistency},
                    {"largest_share", r.servers.largest_share},
                    {"dropped_share", r.servers.dropped_share}};
  }
  if (r.replicas.used()) add_replicas(j, r);
  if (r.steps + r.warm_steps > 1) {
    j["steps_looked_at"] = r.steps;
    j["warm_steps"] = r.warm_steps;
  }
  if (r.training_steps > 0) {
    j["training_steps"] = r.training_steps;
    j["training_time_s"] = r.training_time;
  }
  if (!r.said_step.empty()) j["step_time_source"] = r.said_step;
  if (r.failures) add_json(j, *r.failures);
  if (r.measured.step_time > 0)
    j["compute_measured"] = {{"step_time_s", r.measured.step_time}, {"source", r.measured.source}};
  return j;
}

namespace {

void read_all_reduce(Result& r, const json& j) {
  r.all_reduce.algorithm = j.at("algorithm");
  r.all_reduce.fidelity = j.at("fidelity");
  r.all_reduce.channels = j.at("channels");
  const auto tuned = j.find("tuned");
  if (tuned == j.end()) return;
  for (const json& tried : *tuned) {
    r.all_reduce.tried.push_back({tried.at("algorithm"), tried.at("channels"), tried.at("time_s")});
    r.all_reduce.tried_size = tried.at("size_bytes");
  }
}

void read_server_figures(Result& r, const json& j) {
  const auto servers = j.find("servers");
  if (servers == j.end()) return;
  r.servers.workers = servers->at("workers");
  r.servers.servers = servers->at("servers");
  r.servers.consistency = servers->at("consistency");
  r.servers.largest_share = servers->at("largest_share");
  r.servers.dropped_share = servers->at("dropped_share");
  for (const auto& [of, count] : j.at("staleness").items())
    r.servers.staleness[static_cast<std::uint32_t>(std::stoul(of))] = count;
  r.servers.waits = j.at("waits_s").get<std::map<std::string, double>>();
}

}  // namespace

Result result_from_json(const json& j) {
  Result r;
  r.scenario = j.at("scenario");
  r.step_time = j.at("step_time_s");
  r.training_steps = j.value("training_steps", 0.0);
  r.training_time = j.value("training_time_s", 0.0);
  r.said_step = j.value("step_time_source", "");
  if (j.contains("goodput")) r.failures = failure_study_from_json(j);
  if (const auto measured = j.find("compute_measured"); measured != j.end())
    r.measured = {measured->at("step_time_s"), measured->at("source")};
  if (const auto used = j.find("all_reduce"); used != j.end()) read_all_reduce(r, *used);
  if (const auto input = j.find("input"); input != j.end())
    r.input = {true,
               j.at("starved_share"),
               input->at("storage_busy_share"),
               input->at("decode_busy_share"),
               input->at("read_bytes"),
               input->at("from_cache_share"),
               input->at("host_bytes")};
  r.samples_per_s = j.at("samples_per_s");
  r.tokens_per_s = j.at("tokens_per_s");
  r.tokens_per_s_per_gpu = j.at("tokens_per_s_per_gpu");
  r.tflops_per_gpu = j.at("tflops_per_gpu");
  r.mfu = j.at("mfu");
  r.hfu = j.at("hfu");
  const json& b = j.at("breakdown_s");
  r.breakdown.compute = b.at("compute");
  r.breakdown.exposed_communication = b.at("exposed_communication").get<std::map<std::string, double>>();
  r.breakdown.bubble = b.at("bubble");
  r.breakdown.optimizer = b.at("optimizer");
  r.breakdown.input = b.at("input");
  r.breakdown.framework = b.at("framework");
  r.breakdown.other = b.at("other");
  r.breakdown.rank = j.at("breakdown_rank");
  const json& m = j.at("memory_bytes");
  r.memory = {m.at("capacity"),    m.at("peak"),    m.at("parameters"), m.at("gradients"),  m.at("optimizer"),
              m.at("activations"), m.at("buffers"), m.at("rank"),       m.value("stage", 0)};
  if (const auto stages = m.find("stages"); stages != m.end())
    for (const json& stage : *stages)
      r.stages.push_back({stage.at("rank"), stage.at("peak"), stage.at("parameters"), stage.at("gradients"),
                          stage.at("optimizer"), stage.at("activations"), stage.at("buffers")});
  if (const auto host = j.find("host_memory_bytes"); host != j.end()) {
    r.host_memory = {host->at("capacity"),  host->at("peak"),    host->at("parameters"), host->at("gradients"),
                     host->at("optimizer"), host->at("buffers"), host->at("node")};
    const json& drive = j.at("drive_bytes");
    r.drive = {drive.at("capacity"), drive.at("peak"), drive.at("node")};
  }
  r.fits = j.at("fits");
  r.critical_path = j.at("critical_path_s").get<std::map<std::string, double>>();
  r.bottleneck = j.at("bottleneck").at("resource");
  r.bottleneck_share = j.at("bottleneck").at("share");
  const json& t = j.at("traffic_bytes");
  r.bytes_by_link_kind = t.at("by_link_kind").get<std::map<std::string, double>>();
  r.bytes_sent_per_rank_max = t.at("sent_per_rank_max");
  r.bytes_total = t.at("total");
  r.ranks = j.at("fold").at("ranks");
  r.operations = j.at("events");
  r.messages = j.at("messages");
  r.late_by_look_ahead = j.at("late_by_look_ahead");
  r.wall_s = j.at("wall_s");
  read_server_figures(r, j);
  read_replicas(r, j);
  r.steps = j.value("steps_looked_at", 1);
  r.warm_steps = j.value("warm_steps", 0);
  return r;
}

json report_json(const Result& result, const std::vector<WhatIf>& what_ifs, const Sources& sources, bool timing) {
  json j = to_json(result);
  if (!timing) j.erase("wall_s");
  if (result.capacity) {
    const Capacity& room = *result.capacity;
    j["largest_micro_batch_size"] = room.largest_micro_batch_size;
    j["largest_num_hidden_layers"] =
        room.largest_num_hidden_layers ? json(*room.largest_num_hidden_layers) : json(nullptr);
  }
  for (const FittingChange& change : result.changes)
    j["changes"].push_back({{"set", in_words(change.overrides)}, {"peak_bytes", change.peak}, {"fits", change.fits}});
  j["what_if"] = json::array();
  for (const WhatIf& w : what_ifs) {
    json& row = j["what_if"].emplace_back(json{{"resource", w.resource_class},
                                               {"factor", w.factor},
                                               {"step_time_s", w.step_time},
                                               {"saves_share", 1 - w.step_time / result.step_time}});
    if (w.goodput > 0) row.update({{"goodput", w.goodput}, {"effective_step_time_s", w.effective_step_time}});
  }
  j["sources"] = json::array();
  for (const FigureSource& s : sources)
    j["sources"].push_back(
        {{"figure", s.figure}, {"value", s.value}, {"source", s.source}, {"unverified", s.unverified}});
  return j;
}

}  // namespace trainyard
