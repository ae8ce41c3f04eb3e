#include "tools/verbs/study_shares.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "models/reading/shipped_files.hpp"
#include "sim/error.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

const std::vector<std::string> kShareFlags{"--points", "--out", "--shard", "--slurm", "--tasks", "--submit"};

/// As one word for a shell.
std::string shell_word(const std::string& text) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:@%+";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// A job array of Slurm: its tasks are the shards.
struct SlurmJob {
  std::string folder;  ///< of the script, and of what the tasks write
  int tasks = 1;
  std::vector<std::string> command;  ///< the verb and its words

  std::string points_of(const std::string& task) const { return shell_word(folder + "/points-") + task + ".jsonl"; }

  /// What puts the shards together: a command line.
  std::string merge_command() const {
    const std::string all = tasks > 1 ? fmt::format("{{1..{}}}", tasks) : "1";
    const std::string& verb = command.front();
    const char* format = verb == "sweep" ? "csv" : "json";
    return fmt::format("{} merge {} --{} {}", shell_word(program_file().string()), points_of(all), format,
                       shell_word(fmt::format("{}/{}.{}", folder, verb, format)));
  }

  /// As `sbatch` takes it. It runs this very program.
  std::string script() const {
    std::string words;
    for (const std::string& word : command) words += " " + shell_word(word);
    return fmt::format(
        "#!/bin/bash\n"
        "#SBATCH --job-name=trainyard-{5}\n"
        "#SBATCH --array=1-{0}\n"
        "#SBATCH --ntasks=1\n"
        "#SBATCH --output={1}/task-%a.log\n"
        "#SBATCH --requeue\n"
        "# A task that is started again takes what its points' file has. When all are done:\n"
        "#   {2}\n"
        "exec {3}{4} --shard \"$SLURM_ARRAY_TASK_ID/{0}\" --points {6}\n",
        tasks, folder, merge_command(), shell_word(program_file().string()), words, command.front(),
        points_of("\"$SLURM_ARRAY_TASK_ID\""));
  }
};

void submit_script(const std::string& script) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execlp("sbatch", "sbatch", script.c_str(), nullptr);
    complain("sbatch: not found; is this a machine of a Slurm cluster?");
    ::_exit(kBadInput);
  }
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || status != 0)
    throw UserError("--submit: sbatch did not take the job");
}

}  // namespace

void StudyShares::declare(Arguments& arguments, const std::string& part) {
  arguments.output("--points,--out", points, "keep what is done there, a line each, and resume from it");
  arguments.option("--shard", shard, "I/N",
                   fmt::format("every N-th {} from the I-th on, into --points; see merge", part));
  arguments.option("--slurm", slurm, "FOLDER", "write a batch script for a Slurm job array there, and run nothing");
  arguments.option("--tasks", tasks, "N", "of the job array");
  arguments.flag("--submit", submit, "with --slurm: submit it with sbatch");
}

StudyShard StudyShares::wanted(bool outputs) const {
  if (submit && slurm.empty()) throw UserError("--submit: only with --slurm");
  if (points == "-") throw UserError("--points -: a file expected");
  if (shard.empty()) return {};
  if (points.empty() || outputs) throw UserError("--shard: with --points FILE alone; merge makes the answer");
  return parse_study_shard(shard);
}

int StudyShares::write_slurm_job(const Arguments& arguments, std::size_t most) const {
  if (tasks < 1 || static_cast<std::size_t>(tasks) > most)
    throw UserError(fmt::format("--tasks {}: 1 to {} expected, the parts that there are", tasks, most));
  const SlurmJob job{std::filesystem::absolute(slurm).string(), tasks, arguments.command_without(kShareFlags)};
  std::error_code failed;
  std::filesystem::create_directories(job.folder, failed);
  if (failed) throw UserError(fmt::format("--slurm {}: {}", slurm, failed.message()));
  const std::string script = fmt::format("{}/{}.sbatch", job.folder, job.command.front());
  write_atomically(script, job.script());
  fmt::print("{}\nthen: {}\n", script, job.merge_command());
  if (submit) submit_script(script);
  return kGood;
}

int StudyShares::interrupted_search() const {
  complain(points.empty()
               ? "interrupted (with --points FILE a search can be resumed)"
               : fmt::format("interrupted: run the same command again to resume ({} keeps what is known)", points));
  return kInterrupted;
}

void StudyShares::finish(const Arguments& arguments) const {
  finish_journal(points, arguments.command_without(kShareFlags), parse_study_shard(shard));
}

}  // namespace trainyard
