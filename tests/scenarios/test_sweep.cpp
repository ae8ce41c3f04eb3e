#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>

#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "scenarios/src/studies/sweeps/sweep_axes.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"
#include "scenarios/src/studies/sweeps/sweep_lines.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "tests/svg_checks.hpp"
#include "tests/temporary_folder.hpp"

namespace scenarios_test_sweep {

using namespace trainyard;

namespace {

struct Folder : test::TemporaryFolder {
  Folder() {
    write("small.yaml", R"(cluster: {node: t4-server}
model: {base: gpt2, n_layer: 1}
plan: {global_batch_size: 8, micro_batch_size: 1, seq_length: 64, precision: fp16}
)");
  }
  Sweep sweep(const std::vector<std::string>& sets) const {
    Sweep s{path() / "small.yaml", {}};
    for (const std::string& set : sets) s.axes.push_back(parse_sweep_axis(set));
    return s;
  }
};

/// A column of a point.
nlohmann::json figure(const SweepPoint& point, const char* column) {
  const nlohmann::json all = parse_json(point.figures);
  return all.contains(column) ? all.at(column) : nlohmann::json();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t from = 0, to = 0; (to = text.find('\n', from)) != std::string::npos; from = to + 1)
    lines.push_back(text.substr(from, to - from));
  return lines;
}

}  // namespace

TEST_CASE("a list is split at its commas, but not inside quotes and brackets", "[sweep]") {
  const auto values = [](const std::string& list) { return parse_sweep_axis("a.b=" + list).values; };
  using Values = std::vector<std::string>;
  CHECK(values("1,2, 4") == Values{"1", "2", "4"});
  CHECK(values("25 MiB,1 MiB") == Values{"25 MiB", "1 MiB"});
  CHECK(values("[1, 2],[3]") == Values{"[1, 2]", "[3]"});
  CHECK(values("{a: 1, b: [2, 3]},gpt2") == Values{"{a: 1, b: [2, 3]}", "gpt2"});
  CHECK(values("\"x, y\",'z, [w'") == Values{"\"x, y\"", "'z, [w'"});
  CHECK_THROWS_WITH(values("1,,2"), "--set a.b=1,,2: an empty value in the list");
  CHECK_THROWS_WITH(values(""), "--set a.b=: an empty value in the list");
  CHECK_THROWS_AS(parse_sweep_axis("ab"), UserError);
}

TEST_CASE("layer_cuts lists every cut of the layers into stages", "[sweep]") {
  const auto cuts = [](const char* stages, const char* layers) {
    return layer_cuts(
        read_scenario_text(std::string("cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: ") + layers +
                               "}\nplan: {global_batch_size: 8, micro_batch_size: 1, seq_length: 64, precision: fp16, "
                               "pipeline_parallel: " +
                               stages + "}\n",
                           "cuts.yaml"));
  };
  using Values = std::vector<std::string>;
  CHECK(cuts("2", "4") == Values{"[1, 3]", "[2, 2]", "[3, 1]"});  // the embedding and the head do not count
  CHECK(cuts("4", "4") == Values{"[1, 1, 1, 1]"});
  CHECK(cuts("4", "6").size() == 10);  // 5 places between layers, 3 cuts
  CHECK(cuts("1", "4") == Values{"[4]"});
  CHECK_THROWS_AS(cuts("8", "64"), UserError);  // 5.5e8 cuts are too many
}

TEST_CASE("points are the product of the lists, the last varying fastest", "[sweep]") {
  const Folder folder;
  const Sweep sweep = folder.sweep({"a=1,2", "b=x,y,z"});
  REQUIRE(sweep.points() == 6);
  CHECK(sweep.point(0) == Overrides{{"a", "1"}, {"b", "x"}});
  CHECK(sweep.point(1) == Overrides{{"a", "1"}, {"b", "y"}});
  CHECK(sweep.point(5) == Overrides{{"a", "2"}, {"b", "z"}});
  CHECK(folder.sweep({}).points() == 1);
  CHECK_THROWS_WITH(folder.sweep({"a=1", "a=2"}).points(), "--set a: given twice; put all its values into one list");
  std::string many = "1";
  for (int i = 2; i < 400; ++i) many += "," + std::to_string(i);
  CHECK_THROWS_WITH(folder.sweep({"a=" + many, "b=" + many, "c=" + many}).points(),
                    "a sweep of over 20000000 points would take days; make the lists shorter");
}

TEST_CASE("a sweep gives the results of single runs in order, and errors as rows", "[sweep]") {
  const Folder folder;
  const Sweep sweep = folder.sweep({"plan.global_batch_size=8,9,16", "plan.data_parallel.all_reduce=ring,binary-tree"});
  const std::vector<SweepPoint> points = run_sweep(sweep);
  REQUIRE(points.size() == 6);
  for (std::size_t i = 0; i < points.size(); ++i) {
    INFO(i);
    CHECK(points[i].done);
    if (i == 2 || i == 3) {
      CHECK(points[i].error.find("9 is not a multiple of 4") != std::string::npos);
      continue;
    }
    const Result single = simulate(read_scenario(sweep.scenario, sweep.point(i)));
    CHECK(figure(points[i], "step_time_s") == single.step_time.value);
    CHECK(figure(points[i], "mfu") == single.mfu);
    CHECK(figure(points[i], "memory_peak_bytes") == single.memory.peak.value);
    CHECK(figure(points[i], "memory_device_bytes") == single.memory.device.value);
    CHECK(figure(points[i], "memory_low_bytes") == single.memory_interval.front());
    CHECK(figure(points[i], "memory_high_bytes") == single.memory_interval.back());
    CHECK(figure(points[i], "fits_in_words") == single.fits_in_words());
    CHECK(figure(points[i], "out_of_memory_probability") == single.risk);
    CHECK(figure(points[i], "bottleneck") == single.bottleneck);
  }
  const std::string csv = sweep_csv(sweep, points);
  CHECK(sweep_csv(sweep, run_sweep(sweep)) == csv);
  const std::vector<std::string> lines = lines_of(csv);
  REQUIRE(lines.size() == 7);
  CHECK(lines[0] ==
        "plan.global_batch_size,plan.data_parallel.all_reduce,step_time_s,samples_per_s,tokens_per_s_per_gpu,tflops_"
        "per_gpu,mfu,mfu_with_attention,"
        "memory_peak_bytes,memory_device_bytes,memory_low_bytes,memory_high_bytes,fits,fits_in_words,"
        "out_of_memory_probability,bottleneck,exposed_communication_s,gpus,step_energy_J,tokens_per_J,samples_per_J,"
        "error");
  CHECK(lines[1].starts_with("8,ring," + exact(figure(points[0], "step_time_s").get<double>()) + ","));
  CHECK(lines[3].starts_with("9,ring,,,,,,,,,,,,,,,,"));
  const nlohmann::ordered_json json = sweep_json(sweep, points);
  CHECK(json["points"][5]["set"]["plan.global_batch_size"] == "16");
  CHECK(json["points"][5]["step_time_s"] == figure(points[5], "step_time_s"));
  CHECK(json["points"][2].contains("error"));
}

TEST_CASE("cells with commas, quotes and line ends are quoted", "[sweep]") {
  Sweep sweep{"x.yaml", {{"a", {"{b: 1, c: \"d\"}"}}}};
  SweepPoint point;
  point.done = true;
  Result result;
  result.bottleneck = "HCA";
  result.step_time.value = 0.1;
  result.mfu = 1e-300;
  point.figures = column_figures(result);
  CHECK(lines_of(sweep_csv(sweep, {point}))[1] == "\"{b: 1, c: \"\"d\"\"}\",0.1,0,0,1e-300,0,0,true,yes,0,HCA,0,0,");
}

TEST_CASE("columns of a sweep come in the order in which the points have them first", "[sweep]") {
  const Sweep sweep{"x.yaml", {{"a", {"1", "2", "3"}}}};
  const auto point = [](const std::string& figures) {
    SweepPoint p;
    p.done = true;
    p.figures = figures;
    return p;
  };
  const std::vector<SweepPoint> points{point(R"({"mfu":1,"gpus":2})"), point(R"({"gpus":2,"goodput":3})"),
                                       point(R"({"goodput":3,"mfu":1})")};
  CHECK(sweep_csv(sweep, points) == "a,mfu,gpus,goodput,error\n1,1,2,,\n2,,2,3,\n3,1,,3,\n");
}

TEST_CASE("a sweep over failures and checkpoints shows goodput", "[sweep][failures]") {
  const Folder folder;
  folder.write("faulty.yaml", R"(cluster: {node: t4-server}
model: {base: gpt2, n_layer: 1}
plan: {global_batch_size: 8, micro_batch_size: 1, seq_length: 64, precision: fp16, training: {time: 10 d}}
faults:
  failures: {mtbf: {node: 40 h}, runs: 3}
  checkpoint: {every: 1 h, write: 20 s, load: 5 s}
)");
  Sweep sweep = folder.sweep({"faults.failures.mtbf.node=20 h,40 h", "faults.checkpoint.every=1 h,optimal"});
  sweep.scenario = folder.path() / "faulty.yaml";
  const std::vector<SweepPoint> points = run_sweep(sweep);
  REQUIRE(points.size() == 4);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Result single = simulate_training(read_scenario(sweep.scenario, sweep.point(i)));
    CHECK(figure(points[i], "step_time_s") == single.step_time.value);
    CHECK(figure(points[i], "goodput") == single.failures->goodput);
    CHECK(figure(points[i], "lost_work_s") == single.failures->lost_work.value);
    CHECK(figure(points[i], "checkpoint_interval_s") == single.failures->checkpoint.interval.value);
  }
  CHECK(figure(points[0], "goodput") < figure(points[2], "goodput"));
  CHECK(lines_of(sweep_csv(sweep, points))[0].ends_with(
      "exposed_communication_s,goodput,goodput_deviation,training_time_s,training_days,gpu_hours,"
      "training_time_without_failures_s,effective_step_time_s,lost_work_s,checkpoint_interval_s,gpus,step_energy_J,"
      "tokens_per_J,samples_per_J,error"));
  CHECK(figure(points[0], "gpu_hours").get<double>() == Approx(240 * 4));
  CHECK(sweep_json(sweep, points)["points"][3]["goodput"] == figure(points[3], "goodput"));
  SECTION("a prescribed step has no columns of its parts, and a point without failures has no goodput") {
    Sweep prescribed_sweep =
        folder.sweep({"plan.step_time=0.25 s", "faults=null,{checkpoint: {every: 1 h, write: 9 s, load: 1 s}}"});
    prescribed_sweep.scenario = sweep.scenario;
    const std::vector<SweepPoint> prescribed_points = run_sweep(prescribed_sweep, {folder.path() / "said.partial", {}});
    CHECK(figure(prescribed_points[0], "goodput").is_null());
    CHECK(figure(prescribed_points[1], "goodput").get<double>() == Approx(3600 / 3609.0).epsilon(1e-3));
    const std::string csv = sweep_csv(prescribed_sweep, prescribed_points);
    CHECK(lines_of(csv)[0] ==
          "plan.step_time,faults,step_time_s,samples_per_s,tokens_per_s_per_gpu,tflops_per_gpu,mfu,mfu_with_attention,"
          "goodput,goodput_deviation,training_time_s,training_days,gpu_hours,training_time_without_failures_s,"
          "effective_step_time_s,lost_work_s,checkpoint_interval_s,gpus,error");
    CHECK(lines_of(csv)[1].ends_with(",,,,4,"));
    CHECK(sweep_csv(prescribed_sweep, run_sweep(prescribed_sweep, {folder.path() / "said.partial", {}})) ==
          csv);  // from the journal
  }
}

TEST_CASE("a sweep without a possible point throws the error of its first point", "[sweep]") {
  const Folder folder;
  CHECK_THROWS_WITH(run_sweep(folder.sweep({"plan.global_batch_size=9,10"})),
                    Catch::Contains("9 is not a multiple of 4"));
  CHECK_THROWS_WITH(run_sweep(folder.sweep({"plan.global_batch=9,10"})),
                    Catch::Contains("unknown key \"global_batch\""));
  Sweep nowhere{folder.path() / "smal.yaml", {}};
  CHECK_THROWS_WITH(run_sweep(nowhere), Catch::Contains("smal.yaml: no such file; did you mean"));
}

TEST_CASE("a condition compares fields that vary, in units that agree, or is refused", "[sweep]") {
  Sweep sweep{"small.yaml", {}};
  for (const char* set :
       {"cluster.nodes=1,2,4", "faults.checkpoint.every=2 min,1 h", "cluster.hca.rate=100 Gbit/s,1 GB/s",
        "plan.recompute=none,full", "plan.data_parallel.zero_group=node,8"})
    sweep.axes.push_back(parse_sweep_axis(set));
  const auto kept = [&sweep](const std::string& condition) {
    Sweep chosen = sweep;
    chosen.conditions = {condition};
    chosen.keep_where();
    return chosen.points();
  };
  const std::size_t all = sweep.points();
  CHECK(kept("cluster.nodes > 1") == all / 3 * 2);
  CHECK(kept("faults.checkpoint.every > 30 min") == all / 2);
  CHECK(kept("cluster.hca.rate > 10 GB/s") == all / 2);  // 100 Gbit/s are 12.5 GB/s
  CHECK(kept("0 < cluster.hca.rate") == all);
  CHECK(kept("plan.recompute == full") == all / 2);
  CHECK(kept("none != plan.recompute") == all / 2);
  CHECK(kept("plan.data_parallel.zero_group == node") == all / 2);
  CHECK(kept("plan.data_parallel.zero_group == 8") == all / 2);
  CHECK(kept("cluster.nodes * cluster.nodes >= 4") == all / 3 * 2);
  for (const auto& [condition, words] : std::vector<std::pair<std::string, std::string>>{
           {"nodes > 3", "\"nodes\" is no field that varies"},
           {"foo < 5", "\"foo\" is no field that varies"},
           {"cluster.nods > 1", "did you mean \"cluster.nodes\"?"},
           {"cluster.nodes > 1 GB", "the left side is a number without a unit, the right side bytes"},
           {"faults.checkpoint.every > 30", "the left side is time, the right side a number without a unit"},
           {"cluster.hca.rate < 1 GB", "the left side is bytes a second, the right side bytes"},
           {"plan.recompute == ful", "plan.recompute does not take \"ful\"; did you mean \"full\"?"},
           {"plan.recompute == 8", "the left side is a name, the right side a number"},
           {"plan.recompute < 8", "\"none\", which is no number; expected == or !="},
           {"plan.data_parallel.zero_group > 4", "\"node\", which is no number"},
           {"cluster.nodes / cluster.nodes == 1", "multiply the other side in place of a division"},
           {"cluster.nodes > 9", "none of 48 points meets it"}}) {
    CAPTURE(condition);
    CHECK_THROWS_WITH(kept(condition), Catch::StartsWith("--where " + condition + ": ") && Catch::Contains(words));
  }
}

TEST_CASE("points of the journal are not simulated again; half a line does not count", "[sweep]") {
  const Folder folder;
  const std::filesystem::path journal = folder.path() / "out.csv.partial";
  const Sweep sweep = folder.sweep({"plan.global_batch_size=4,8,12"});
  const std::vector<SweepPoint> points = run_sweep(sweep, {journal, {}});
  const std::vector<std::string> lines = lines_of(test::file_text(journal));
  REQUIRE(lines.size() == 3);

  // A figure that no simulation gives shows what was taken from the journal.
  std::string doctored;
  for (const std::string& sealed_line : lines) {
    const std::string line = unseal_line(sealed_line, journal, 1), key = "\"step_time_s\":";
    const std::size_t from = line.find(key) + key.size();
    doctored += seal_line(line.substr(0, from) + "42.5" + line.substr(line.find(',', from))) + "\n";
  }
  doctored.resize(doctored.size() - 20);  // as if the sweep had ended while it wrote the third line
  std::ofstream(journal) << doctored;
  std::vector<std::size_t> progress;
  const std::vector<SweepPoint> resumed = run_sweep(sweep, {journal, [&](std::size_t done, std::size_t total) {
                                                              CHECK(total == 3);
                                                              progress.push_back(done);
                                                            }});
  CHECK(progress == std::vector<std::size_t>{3});
  int from_journal = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (figure(resumed[i], "step_time_s") == 42.5)
      ++from_journal;
    else
      CHECK(figure(resumed[i], "step_time_s") == figure(points[i], "step_time_s"));
  }
  CHECK(from_journal == 2);
  CHECK(run_sweep(sweep, {journal, {}})[0].done);
  CHECK(lines_of(test::file_text(journal)).size() == 3);  // the torn line is removed, and its point is written again

  // The scenario has changed: nothing of the journal fits.
  std::ofstream(folder.path() / "small.yaml", std::ios::app) << "software: pytorch-ddp\n";
  for (const SweepPoint& point : run_sweep(sweep, {journal, {}})) CHECK(figure(point, "step_time_s") != 42.5);
}

TEST_CASE("a streamed sweep and its merged shards write the same bytes as a sweep in memory", "[sweep]") {
  const Folder folder;
  // Micro-batches of 3 divide no batch.
  const Sweep sweep = folder.sweep({"plan.micro_batch_size=1,2,3", "cluster.nodes=1,2"});
  const std::vector<SweepPoint> points = run_sweep(sweep);
  const auto streamed = [&](const StudyShard& shard, const std::string& lines, const std::string& csv) {
    StreamedSweep files(sweep, shard, lines.empty() ? "" : folder.path() / lines,
                        csv.empty() ? "" : folder.path() / csv);
    stream_sweep(sweep, {{}, {}, shard}, [&](std::size_t i, const SweepPoint& point) { files.take(i, point); });
    CHECK(files.is_complete());
    files.finish();
    return files.impossible();
  };
  CHECK(streamed({}, "all.jsonl", "all.csv").starts_with("4 of 6 points are impossible; the first: "));
  CHECK(folder.text("all.jsonl") == sweep_lines(sweep, points, {}));
  CHECK(folder.text("all.csv") == sweep_csv(sweep, points));
  std::vector<std::string> files;
  for (const std::size_t index : {2, 1}) {
    files.push_back((folder.path() / ("part" + std::to_string(index))).string());
    streamed({index, 2}, "part" + std::to_string(index), "");
    CHECK(test::file_text(files.back()) == sweep_lines(sweep, points, {index, 2}));
  }
  StreamedSweep merged(sweep, {}, "", folder.path() / "merged.csv");
  stream_merged(sweep, files, [&](std::size_t i, const SweepPoint& point) { merged.take(i, point); });
  merged.finish();
  CHECK(folder.text("merged.csv") == folder.text("all.csv"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "merged.csv.points"));
  CHECK_THROWS_AS(stream_merged(sweep, {files[0]}, [](std::size_t, const SweepPoint&) {}), UserError);
  CHECK_THROWS_AS(stream_merged(sweep, {files[0], files[0]}, [](std::size_t, const SweepPoint&) {}), UserError);
}

TEST_CASE("points scale from a baseline, and the knee is the last point at which more GPUs help", "[sweep][scaling]") {
  const auto point = [](double gpus, double rate) {
    SweepPoint p;
    p.done = true;
    p.figures = "{\"gpus\":" + exact(gpus) + ",\"samples_per_s\":" + exact(rate) + "}";
    return p;
  };
  std::vector<SweepPoint> points{point(2, 100), point(4, 180), point(8, 240), point(16, 230), point(4, 150)};
  points.push_back({true, "no such plan", ""});
  const GpusAndRate baseline = add_scaling(points, 1);
  CHECK(baseline.rate == 100);
  CHECK(figure(points[1], "ideal_samples_per_s") == 200.0);
  CHECK(figure(points[1], "scaling_efficiency") == 0.9);
  CHECK(figure(points[3], "speedup") == 2.3);
  const std::vector<GpusAndRate> scaling = scaling_points(points);
  REQUIRE(scaling.size() == 4);
  CHECK(scaling[1].rate == 180);
  using Catch::Matchers::Contains;
  CHECK_THAT(scaling_knee(scaling), Contains("8 GPUs are the most that help") && Contains("beyond 4"));
  CHECK_THROWS_WITH(add_scaling(points, 7), Contains("from 1 to 6"));
  CHECK_THROWS_WITH(add_scaling(points, 6), Contains("no such plan"));
  const std::string svg = scaling_picture("x & y", {{"", scaling}}, baseline);
  test::well_formed(svg);
  CHECK_THAT(svg, Contains("x &amp; y") && Contains(">60 %<") && Contains(">16<"));
}

TEST_CASE("no cell of a table is a formula to a spreadsheet", "[sweep]") {
  const Sweep sweep{"x.yaml",
                    {{"model", {"=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "-1.5e3", "+7", "a=b", "-"}}}};
  std::vector<SweepPoint> points(sweep.points(), SweepPoint{true, "", R"({"mfu": -0.5})"});
  points[1] = {true, "=1: not a number", ""};
  CHECK(
      sweep_csv(sweep, points) ==
      "model,mfu,error\n'=1+1,-0.5,\n'+cmd|' /C calc'!A0,,'=1: not a number\n'-2+3,-0.5,\n'@SUM(1),-0.5,\n'\t=1,-0.5,\n"
      "-1.5e3,-0.5,\n+7,-0.5,\na=b,-0.5,\n'-,-0.5,\n");
  LeftOutStep step;
  step.family = "=1+1";
  step.row = "@row";
  step.source = "+who";
  step.profile.traits = {"@SUM(1)", "-2+3", "a, b", "+cmd|' /C calc'!A0"};
  const std::string table = left_out_csv("training", {step});
  CHECK_THAT(table,
             Catch::Contains(
                 "\n'=1+1,'@row,'+who,'@SUM(1),'-2+3,\"a, b\",'+cmd|' /C calc'!A0,1,0.000,0.000,0.000,0.000,no,no,no,"
                 "0.0000,0.0000\n"));
}

TEST_CASE("any error in a point of a sweep is the error of that point", "[sweep]") {
  const auto point = [](const std::function<void(SweepPoint&)>& simulate) { return simulated_point(simulate); };
  const SweepPoint good = point([](SweepPoint& p) { p.key = "k", p.figures = "{}"; });
  CHECK((good.done && good.error.empty() && good.key == "k" && good.figures == "{}"));
  const SweepPoint wrong = point([](SweepPoint& p) {
    p.key = "k";
    throw UserError("no such GPU");
  });
  CHECK((wrong.done && wrong.error == "no such GPU" && wrong.key == "k"));
  // A journal keeps neither: they say nothing about the point.
  const SweepPoint fault = point([](SweepPoint& p) {
    p.key = "k";
    throw InternalError("a row is missing");
  });
  CHECK((fault.done && fault.error == "a fault of the program: a row is missing" && fault.key.empty()));
  const SweepPoint full = point([](SweepPoint& p) {
    p.key = "k";
    throw std::bad_alloc();
  });
  CHECK((full.done && full.error.starts_with("not enough memory") && full.key.empty()));
}

}  // namespace scenarios_test_sweep
