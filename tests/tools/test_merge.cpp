// Studies: their files of points, their shards with and without Slurm, and the merged answer.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/html_pages.hpp"

namespace tools_test_merge {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const std::string kStudy = " --set plan.global_batch_size=16,32,20,64,48 --set cluster.nodes=1,2";

std::vector<std::string> values(const std::string& list) { return parse_sweep_axis("a.b=" + list).values; }

}  // namespace

TEST_CASE("ranges of a sweep stand for their values", "[sweep]") {
  using Values = std::vector<std::string>;
  CHECK(values("range(1, 4)") == Values{"1", "2", "3", "4"});
  CHECK(values("range(0.1, 0.5, 0.2),7") == Values{"0.1", "0.3", "0.5", "7"});
  CHECK(values("log-range(1, 20)") == Values{"1", "2", "4", "8", "16"});
  CHECK(values("log-range(100 Gbit/s, 1600 Gbit/s, 4)") == Values{"100 Gbit/s", "400 Gbit/s", "1600 Gbit/s"});
  CHECK(values("range(0, 99999)").size() == 100000);
  for (const char* bad :
       {"range(4, 1)", "range(1)", "range(1, 2, 0)", "log-range(0, 4)", "log-range(1, 4, 1)", "range(a, b)",
        "range(1 s, 2 ms)", "range(0, 1e9)", "range(0, 1e300)", "range(1, 2", "range(1, nan)"})
    CHECK_THROWS_AS(values(bad), UserError);
}

TEST_CASE("points that do not meet the conditions are left out", "[sweep]") {
  Sweep sweep{"x.yaml", {{"plan.a", {"1", "2", "4"}}, {"plan.b", {"1 GB", "3 GB"}}, {"c", {"x", "y"}}}};
  sweep.conditions = {"plan.a * plan.b <= 4 GB", "c != y"};
  sweep.keep_where();
  REQUIRE(sweep.points() == 4);
  CHECK(sweep.point(0) == Overrides{{"plan.a", "1"}, {"plan.b", "1 GB"}, {"c", "x"}});
  CHECK(sweep.point(2) == Overrides{{"plan.a", "2"}, {"plan.b", "1 GB"}, {"c", "x"}});
  const auto refused = [&](const char* condition) {
    Sweep other{"x.yaml", sweep.axes, {condition}};
    CHECK_THROWS_AS(other.keep_where(), UserError);
  };
  for (const char* condition : {"plan.a > 4", "plan.a * plan.b <= 4", "plan.a", "plan.aa < 3", "* 3 < plan.a", ""})
    refused(condition);
}

TEST_CASE("merged shards give the bytes of one process, even after a kill, and missing shards are refused",
          "[sweep][merge][cli]") {
  const PageFolder folder;
  REQUIRE(folder.trainyard("sweep small.yaml" + kStudy + " --csv one.csv --json one.json --html one.html").exit == 0);
  std::string files;
  for (const char* shard : {"3", "1", "2"}) {
    const std::string file = std::string("p") + shard + ".jsonl";
    const TopoAnswer ended =
        folder.trainyard("sweep small.yaml" + kStudy + " --shard " + shard + "/3 --points " + file);
    INFO(ended.err);
    REQUIRE(ended.exit == 0);
    CHECK(ended.out.empty());
    files += " " + file;
  }
  REQUIRE(folder.trainyard("merge" + files + " --csv m.csv --json m.json --html m.html").exit == 0);
  CHECK(folder.text("m.csv") == folder.text("one.csv"));
  CHECK(folder.text("m.json") == folder.text("one.json"));
  CHECK(folder.text("m.html") == folder.text("one.html"));
  CHECK(folder.trainyard("merge" + files + " --sort -mfu --top 2").out ==
        folder.trainyard("sweep small.yaml" + kStudy + " --sort -mfu --top 2").out);

  // Each line is a complete point; the first line describes the study.
  const std::string points = folder.text("p1.jsonl");
  const json study = parse_json(points.substr(0, points.find('\n')));
  CHECK(study["study"]["points"] == 10);
  const std::string second = points.substr(points.find('\n') + 1);
  const json line = parse_json(second.substr(0, second.find('\n')));
  CHECK(line["point"] == 0);
  CHECK(line["set"]["cluster.nodes"] == "1");
  CHECK(line["figures"]["step_time_s"].get<double>() > 0);
  CHECK(folder.trainyard("--version").out == "trainyard " + line["version"].get<std::string>() + "\n");
  // The file has an impossible point with its error, and the sweep goes on after it.
  CHECK_THAT(folder.text("p2.jsonl") + folder.text("p1.jsonl") + folder.text("p3.jsonl"),
             Contains("is not a multiple of"));

  // After a kill in the middle of a line, the same command writes the same file.
  const std::size_t half = second.find('\n') + 40;
  folder.write("p1.jsonl", second.substr(0, half));
  CHECK_THAT(folder.trainyard("merge" + files).err,
             Contains("p1.jsonl") && Contains("run its command again to finish"));
  folder.write("cut.jsonl", points.substr(0, points.find('\n') + 1 + half));
  CHECK_THAT(folder.trainyard("merge cut.jsonl").err, Contains("cut.jsonl:3: the line is cut off"));
  REQUIRE(folder.trainyard("sweep small.yaml" + kStudy + " --shard 1/3 --points p1.jsonl").exit == 0);
  CHECK(folder.text("p1.jsonl") == points);

  CHECK_THAT(folder.trainyard("merge p1.jsonl p3.jsonl").err, Contains("3 of 10 points are in none of the 2 files"));
  REQUIRE(folder.trainyard("sweep small.yaml --set cluster.nodes=1,2,3 --shard 1/3 --points q.jsonl").exit == 0);
  CHECK_THAT(folder.trainyard("merge p1.jsonl q.jsonl").err, Contains("q.jsonl: of another study than p1.jsonl"));
  for (const char* bad : {"merge", "merge nowhere.jsonl", "merge small.yaml", "sweep small.yaml --shard 1/3",
                          "sweep small.yaml --shard 4/3 --points x", "sweep small.yaml --shard 1/3 --points x --csv y",
                          "sweep small.yaml --submit", "sweep small.yaml --points -"}) {
    INFO(bad);
    CHECK(folder.trainyard(bad).exit == 2);
  }
}

namespace {

/// Changes one character at many places of every line. `use` must refuse each file, and name the file and the line.
void check_altered(const PageFolder& folder, const std::string& file, const std::string& use) {
  const std::string original = folder.text(file);
  std::size_t begin = 0;
  for (std::size_t line = 1; begin < original.size(); ++line) {
    const std::size_t end = original.find('\n', begin), step = std::max<std::size_t>(1, (end - begin) / 7);
    for (std::size_t position = begin; position < end; position += step) {
      std::string altered = original;
      altered[position] = altered[position] == '7' ? '8' : '7';
      folder.write(file, altered);
      const TopoAnswer refused = folder.trainyard(use);
      INFO(file << ":" << line << ", character " << position - begin);
      CHECK(refused.exit == 2);
      CHECK(refused.out.empty());
      CHECK_THAT(refused.err, Catch::StartsWith(file + ":" + std::to_string(line) +
                                                ": this line of points was changed after it was") &&
                                  Contains("Remove the file and run the command again, which writes a new one"));
      CHECK(folder.text(file) == altered);
    }
    begin = end + 1;
  }
  folder.write(file, original);
}

}  // namespace

TEST_CASE("merging and resuming refuse a changed line of points", "[sweep][merge][cli]") {
  const PageFolder folder;
  const std::string study = "sweep small.yaml --set plan.global_batch_size=16,32";
  REQUIRE(folder.trainyard(study + " --points p.jsonl").exit == 0);
  check_altered(folder, "p.jsonl", "merge p.jsonl");
  check_altered(folder, "p.jsonl", study + " --points p.jsonl");
  CHECK(folder.trainyard(study + " --points p.jsonl").exit == 0);
  // Points of a version without checksums.
  std::string old = folder.text("p.jsonl");
  for (std::size_t at = 0; (at = old.find("\"check\":\"", at)) != std::string::npos;) old.erase(at, 10 + 16 + 2);
  folder.write("old.jsonl", old);
  CHECK_THAT(folder.trainyard("merge old.jsonl").err, Catch::StartsWith("old.jsonl:1: ") && Contains("checksum"));
  folder.write("empty.jsonl", "");
  CHECK(folder.trainyard("merge empty.jsonl").err ==
        "empty.jsonl:1: empty; expected the points of a sweep, which --points writes\n");
  folder.write("text.jsonl", "hello\n");
  CHECK(folder.trainyard("merge text.jsonl").err ==
        "text.jsonl:1: no line of points: it begins with no checksum; expected a file that --points has written\n");
  CHECK(folder.trainyard("merge missing.jsonl").err == "missing.jsonl: cannot be read: no such file\n");
  CHECK(folder.trainyard("merge .").err == ".: cannot be read: a folder, not a file\n");
  // The journals of interrupted sweeps and of other verbs are checked, too.
  const std::string points = folder.text("p.jsonl");
  folder.write("t.csv.partial", points.substr(points.find('\n') + 1));
  check_altered(folder, "t.csv.partial", study + " --csv t.csv");
  CHECK(folder.trainyard(study + " --csv t.csv").exit == 0);
  const std::string learned =
      "learn " TRAINYARD_SOURCE_DIR "/scenarios/learn-local-sgd.yaml --set learn.steps=8 --seeds 2 --points l.txt";
  REQUIRE(folder.trainyard(learned).exit == 0);
  std::string altered = folder.text("l.txt");
  altered[altered.size() / 2] = altered[altered.size() / 2] == '7' ? '8' : '7';
  folder.write("l.txt", altered);
  const TopoAnswer refused = folder.trainyard(learned);
  CHECK(refused.exit == 2);
  CHECK_THAT(refused.err, Catch::StartsWith("l.txt:"));
}

TEST_CASE("a study file gives the answer of the same flags, and too many or no points are refused", "[sweep][cli]") {
  const PageFolder folder;
  folder.write("study.yaml", R"(scenario: small.yaml
set:
  plan.micro_batch_size: {log_range: [1, 4]}
  plan.precision: [fp16, fp32]
together:
  - {cluster.nodes: [1, 2], plan.global_batch_size: [32, 64]}
where: ["plan.micro_batch_size * cluster.nodes <= 4"]
)");
  const TopoAnswer study = folder.trainyard("sweep study.yaml");
  INFO(study.err);
  CHECK(study.exit == 0);
  CHECK(study.out ==
        folder
            .trainyard("sweep small.yaml --set \"plan.micro_batch_size=log-range(1,4)\" --set plan.precision=fp16,fp32 "
                       "--set \"cluster.nodes=1,2 & plan.global_batch_size=32,64\" "
                       "--where \"plan.micro_batch_size * cluster.nodes <= 4\"")
            .out);
  CHECK(std::count(study.out.begin(), study.out.end(), '\n') == 1 + 2 * (3 + 2));
  const auto error = [&](const std::string& text) {
    folder.write("bad.yaml", text);
    const TopoAnswer ended = folder.trainyard("sweep bad.yaml --csv bad.csv");
    CHECK(ended.exit == 2);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "bad.csv"));
    return ended.err;
  };
  CHECK_THAT(error("scenario: small.yaml\nset: {cluster.nodes: {range: [1, 1000000000]}}\n"),
             Contains("bad.yaml:2:") && Contains("over 100000 values"));
  CHECK_THAT(error("scenario: small.yaml\nset: {a.b: {range: [1, 99999]}, a.c: {range: [1, 99999]}}\n"),
             Contains("a sweep of over 20000000 points would take days"));
  // A sweep with too many points for memory writes them into files.
  const std::string many = "sweep small.yaml --set \"a.b=range(1, 400)\" --set \"a.c=range(1, 400)\"";
  for (const char* outputs : {"", " --json x.json", " --csv - --points x.jsonl", " --csv x.csv --sort mfu"})
    CHECK_THAT(folder.trainyard(many + outputs).err,
               Contains("a sweep of 160000 points is streamed into files: --points FILE or --csv FILE expected"));
  CHECK_THAT(error("scenario: small.yaml\nset: {cluster.nodes: [1, 2]}\nwhere: [cluster.nodes > 3]\n"),
             Contains("none of 2 points meets it"));
  CHECK_THAT(error("scenario: small.yaml\nsets: {cluster.nodes: [1, 2]}\n"), Contains("did you mean \"set\"?"));
  CHECK_THAT(error("scenario: small.yaml\ntogether: [{a.b: [1, 2], a.c: [1]}]\n"),
             Contains("a.b has 2 values, a.c has 1"));
}

TEST_CASE("a job array runs the shards, and merge writes the table of one process", "[sweep][merge][cli]") {
  const PageFolder folder;
  REQUIRE(folder.trainyard("sweep small.yaml" + kStudy + " --csv one.csv").exit == 0);
  const TopoAnswer written = folder.trainyard("sweep small.yaml" + kStudy + " --slurm jobs --tasks 3");
  INFO(written.err);
  REQUIRE(written.exit == 0);
  const std::string script = folder.text("jobs/sweep.sbatch");
  CHECK_THAT(script, Contains("#SBATCH --array=1-3\n"));
  const std::string in_folder = "cd '" + folder.path().string() + "' && ";
  for (const char* task : {"1", "2", "3"})
    REQUIRE(std::system((in_folder + "SLURM_ARRAY_TASK_ID=" + task + " bash jobs/sweep.sbatch >.out 2>&1").c_str()) ==
            0);
  const std::string merge = written.out.substr(written.out.find("then: ") + 6);
  REQUIRE(std::system((in_folder + "bash -c '" + merge.substr(0, merge.size() - 1) + "' 2>.err").c_str()) == 0);
  CHECK(folder.text("jobs/sweep.csv") == folder.text("one.csv"));
  CHECK_THAT(folder.trainyard("sweep small.yaml --slurm jobs --tasks 3").err, Contains("--tasks 3: 1 to 1 expected"));
  CHECK(folder.trainyard("sweep small.yaml --slurm usual").exit == 0);  // has fewer points than the usual 8 tasks
  // The folder's name has characters with a meaning in Slurm's lines and in the shell; the script runs from any folder.
  const std::string odd = "my \"jobs\" $(date) 50% 'x'", own = "'" + folder.path().string() + "'";
  const TopoAnswer oddly =
      folder.trainyard("sweep small.yaml" + kStudy + " --tasks 2 --slurm 'my \"jobs\" $(date) 50% '\\''x'\\'''");
  INFO(oddly.err);
  REQUIRE(oddly.exit == 0);
  CHECK_THAT(folder.text(odd + "/sweep.sbatch"), Contains("/my \\\"jobs\\\" $(date) 50%% 'x'\"/task-%a.log\n"));
  folder.write("merge.sh", oddly.out.substr(oddly.out.find("then: ") + 6));
  folder.write("tasks.sh", "for i in 1 2; do SLURM_ARRAY_TASK_ID=$i bash \"$1\"/my*/sweep.sbatch || exit; done\n");
  CHECK(std::system(("cd / && { bash " + own + "/tasks.sh " + own + " && bash " + own + "/merge.sh; } >/dev/null 2>" +
                     own + "/.err")
                        .c_str()) == 0);
  INFO(folder.text(".err"));
  CHECK(folder.text(odd + "/sweep.csv") == folder.text("one.csv"));
  // A shell reads one command, whatever the words; sbatch and the tasks' srun get each word unchanged.
  folder.write("it's \"a\" study.yaml", folder.text("small.yaml"));
  folder.write("bin/sbatch",
               "#!/bin/bash\nbash -n \"$1\" || exit\ngrep -n '^#SBATCH' \"$1\" | tail -n 1 | cut -d: -f1\n"
               "for i in 1 2; do SLURM_ARRAY_TASK_ID=$i srun \"$1\" || exit; done\n");
  folder.write("bin/srun", "#!/bin/bash\necho \"task $#\"\nexec bash \"$@\" >/dev/null\n");
  for (const char* stub : {"bin/sbatch", "bin/srun"})
    std::filesystem::permissions(folder.path() / stub, std::filesystem::perms::owner_all);
  const std::string submit =
      "PATH=\"$PWD/bin:$PATH\" '" TRAINYARD_BINARY "' sweep 'it'\\''s \"a\" study.yaml'" + kStudy;
  CHECK(std::system((in_folder + submit +
                     " --set 'plan.recompute=none' --tasks 2 --submit --slurm '#1; \"x y\" `id`' >.out 2>.err")
                        .c_str()) == 0);
  INFO(folder.text(".err"));
  CHECK_THAT(folder.text(".out"), Contains("\n6\ntask 1\ntask 1\n"));
  CHECK_FALSE(folder.text("#1; \"x y\" `id`/points-2.jsonl").empty());
  for (const char* bad : {"'a\ntouch run #'", "'a\tb'", "'a\\b'"}) {
    const TopoAnswer refused = folder.trainyard("sweep small.yaml --tasks 1 --slurm " + std::string(bad));
    INFO(bad);
    CHECK(refused.exit == 2);
    CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 1);
  }
  // A stand-in for sbatch prints its arguments.
  folder.write("bin/sbatch", "#!/bin/sh\necho \"took $1\"\n");
  std::filesystem::permissions(folder.path() / "bin/sbatch", std::filesystem::perms::owner_all);
  REQUIRE(std::system((in_folder + "PATH=\"$PWD/bin:$PATH\" '" TRAINYARD_BINARY "' sweep small.yaml" + kStudy +
                       " --slurm jobs --tasks 3 --submit >.out 2>.err")
                          .c_str()) == 0);
  CHECK_THAT(folder.text(".out"), Contains("took /") && Contains("jobs/sweep.sbatch\n"));
}

namespace {

/// Runs a command in three shards and merges them. The result must be the file that one process writes with `flag`.
void check_shards(const PageFolder& folder, const std::string& command, const std::string& flag) {
  INFO(command);
  const TopoAnswer single = folder.trainyard(command + " " + flag + " one");
  INFO(single.err);
  REQUIRE(single.exit == 0);
  std::string files;
  for (const char* shard : {"2", "3", "1"}) {
    const std::string file = std::string("part") + shard;
    const TopoAnswer ended = folder.trainyard(command + " --shard " + shard + "/3 --points " + file);
    INFO(ended.err);
    REQUIRE(ended.exit == 0);
    CHECK(ended.out.empty());
    files += " " + file;
  }
  const TopoAnswer merged = folder.trainyard("merge" + files + " " + flag + " merged");
  INFO(merged.err);
  REQUIRE(merged.exit == 0);
  CHECK(folder.text("merged") == folder.text("one"));
  CHECK(merged.out == single.out);

  // A share that is resumed after its end, or after a kill in a line, has the same content. An unfinished share is refused.
  const std::string finished = folder.text("part1");
  CHECK(folder.trainyard(command + " --shard 1/3 --points part1").exit == 0);
  CHECK(folder.text("part1") == finished);
  const std::size_t second = finished.find('\n') + 1;
  folder.write("part1", finished.substr(second, (finished.size() - second) / 2));
  CHECK_THAT(folder.trainyard("merge part2 part1 part3").err, Contains("part1: not a finished share of "));
  CHECK(folder.trainyard(command + " --shard 1/3 --points part1").exit == 0);
  CHECK(folder.trainyard("merge" + files + " " + flag + " merged").exit == 0);
  CHECK(folder.text("merged") == folder.text("one"));
  CHECK_THAT(folder.trainyard("merge part1 part3").err, Contains("1 of 3 shards is in none of the 2 files"));
  for (const char* bad : {" --shard 1/3", " --shard 4/3 --points part1", " --shard 1/3 --points part1 --json x"})
    CHECK(folder.trainyard(command + bad).exit == 2);
}

}  // namespace

TEST_CASE("merged shards of learn, plan and size give the bytes of one process", "[merge][cli][learn][search][size]") {
  const PageFolder folder;
  folder.write("plan.yaml",
               "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\n"
               "plan: {global_batch_size: 16, seq_length: 256, micro_batch_size: 1, training: {tokens: 1e9}}\n"
               "software: megatron-core\n");
  check_shards(folder,
               "learn '" TRAINYARD_SOURCE_DIR
               "/scenarios/learn-local-sgd.yaml' --set learn.steps=12 --seeds 2 "
               "--compare \"plan.data_parallel.local_steps=1,4\"",
               "--json");
  check_shards(folder,
               "plan plan.yaml --vary plan.pipeline.schedule=1f1b --vary plan.micro_batch_size=1,2 "
               "--vary plan.recompute=none --vary plan.tensor_parallel=1,2,4 --upgrades",
               "--write");
  check_shards(folder, "size plan.yaml --days 30 --gpus 8 --nodes-of dgx-a100,dgx-h100,dgx-b200 --work 2M", "--json");
  CHECK_THAT(folder.trainyard("merge part1 part2 part3 --csv x").err, Contains("--csv: only with --network"));
  const TopoAnswer written =
      folder.trainyard("size plan.yaml --days 30 --gpus 8 --nodes-of dgx-a100 --json a.json --slurm jobs --tasks 2");
  CHECK(written.exit == 0);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "a.json"));
  CHECK_THAT(folder.text("jobs/size.sbatch"),
             Contains("#SBATCH --array=1-2\n") &&
                 Contains(" size plan.yaml --days 30 --gpus 8 --nodes-of dgx-a100 --shard \"$SLURM_ARRAY_TASK_ID/2\""));
  CHECK_THAT(written.out, Contains("jobs/size.json"));
}

TEST_CASE("a real Slurm runs the job array", "[sweep][merge][slurm][.deep]") {
  const bool installed = std::system("command -v slurmctld slurmd munged sbatch >/dev/null 2>&1") == 0;
  if (!installed || ::geteuid() != 0) {
    WARN("skipped: slurmctld, slurmd, slurm-client and munge, and root to start them, are needed");
    return;
  }
  const PageFolder folder;
  REQUIRE(folder.trainyard("sweep small.yaml" + kStudy + " --csv one.csv").exit == 0);
  const int ended = std::system(("cd '" + folder.path().string() +
                                 "' && bash '" TRAINYARD_SOURCE_DIR "/tests/tools/in_local_slurm.sh' '" TRAINYARD_BINARY
                                 "' sweep small.yaml" +
                                 kStudy + " --slurm jobs --tasks 3 --submit >.out 2>.err </dev/null")
                                    .c_str());
  INFO(folder.text(".err"));
  if (WIFEXITED(ended) && WEXITSTATUS(ended) == 77) {
    WARN("skipped: " + folder.text(".err"));
    return;
  }
  REQUIRE(ended == 0);
  REQUIRE(folder.trainyard("merge jobs/points-1.jsonl jobs/points-2.jsonl jobs/points-3.jsonl --csv m.csv").exit == 0);
  CHECK(folder.text("m.csv") == folder.text("one.csv"));
}

}  // namespace tools_test_merge
