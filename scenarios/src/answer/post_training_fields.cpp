#include "scenarios/src/answer/post_training_result.hpp"

#include <nlohmann/json.hpp>

namespace trainyard {

template <>
const JsonCodec& json_codec<LoopLimit>() {
  using Json = FieldTable::Json;
  static constexpr JsonCodec codec{
      [](const void* v, Json& j) { j = name_of(*static_cast<const LoopLimit*>(v)); },
      [](const Json& j, void* v) {
        for (const LoopLimit limit : {LoopLimit::training, LoopLimit::generation, LoopLimit::both_in_turn})
          if (j == name_of(limit)) *static_cast<LoopLimit*>(v) = limit;
      },
      [](const std::string&) { return std::string("text"); }};
  return codec;
}

namespace {

JsonFields<PostTrainingResult::EngineParts> engine_part_fields() {
  using P = PostTrainingResult::EngineParts;
  return JsonFields<P>()
      .value("prefill", "s", &P::prefill, "time to compute keys and values of prompts, and of preempted sequences")
      .value("products", "s", &P::products, "time of matrix products, experts, norms and sampling of decode steps")
      .value("cache", "s", &P::cache,
             "time in decode steps of attention, which reads the cache of keys and values, and of state-space layers, "
             "which read and write the states of sequences")
      .value("exchanges", "s", &P::exchanges, "time of exchanges among the GPUs of the engine in decode steps")
      .value("host", "s", &P::host, "host time of the engine in decode steps")
      .value("calls", "s", &P::calls, "time in which all sequences of the engine wait for calls of tools");
}

JsonFields<PostTrainingResult::EngineMemory> engine_memory_fields() {
  using M = PostTrainingResult::EngineMemory;
  return JsonFields<M>()
      .value("capacity", "bytes", &M::capacity, "memory of a GPU that the engine takes")
      .value("weights", "bytes", &M::weights, "size of the weights")
      .value("reserved", "bytes", &M::reserved, "activations, graphs and buffers of the engine")
      .value("cache", "bytes", &M::cache, "room for keys, values and states of sequences")
      .value("cache_peak", "bytes", &M::cache_peak, "most keys, values and states at a time, on the fullest engine");
}

}  // namespace

namespace {

JsonFields<AnswerTimes> answer_time_fields() {
  using T = AnswerTimes;
  return JsonFields<T>()
      .value("first_token", "s", &T::first_token,
             "mean time from the arrival of a prompt to the first token of its answer")
      .value("first_token_p50", "s", &T::median_first_token, "median of that time")
      .value("first_token_p99", "s", &T::late_first_token, "time within which 99 of 100 first tokens come")
      .value("token", "s", &T::token, "mean time between the tokens of an answer after the first");
}

/// The fields of engines that answer prompts without a loop.
JsonFields<PostTrainingResult> engines_alone_fields() {
  using P = PostTrainingResult;
  return JsonFields<P>()
      .value("time_s", "s", &P::generation, "time until the last answer ends")
      .value("engines", "", &P::engines, "number of engines")
      .value("gpus", "", &P::generation_gpus, "number of GPUs of all engines")
      .object("answer_times_s", &P::answers, answer_time_fields(), "times of answers, for those who wait for them")
      .object("slowest_engine_s", &P::parts, engine_part_fields(), "parts of the time of the engine that ends last")
      .value("engine_limit", "", &P::engine_limit, "largest part of the time of that engine")
      .value("mean_answer_tokens", "", &P::mean_answer, "mean tokens of the drawn answers")
      .value("longest_answer_tokens", "", &P::longest_answer, "tokens of the longest drawn answer")
      .value("token_time_s", "s", &P::token_time, "mean time of a decode step of the engine that ends last")
      .value("running_sequences", "", &P::sequences, "mean number of running sequences in its decode steps")
      .value("preemptions", "", &P::preemptions, "number of times that a sequence gave up its keys and values")
      .value("waits_for_cache", "", &P::waits_for_cache,
             "whether an answer waited because the cache of its engine had no room for it")
      .value("unsettled_share", "share", &P::unsettled,
             "asynchronous: share by which engines do more or less work in the simulated steps than the answers of "
             "these steps need; 0: the loop has settled")
      .value("recomputed_s", "s", &P::recomputed,
             "part of slowest_engine_s.prompts that computes keys and values of interrupted answers again")
      .value("busy_sandboxes_share", "share", &P::busy_sandboxes,
             "mean share of the generation in which a sandbox is busy; 0: calls have no limit")
      .value("tokens_of_pass", "", &P::tokens_of_pass,
             "mean tokens that a pass of the model adds to a sequence; above 1 with speculation")
      .object("engine_memory_bytes", &P::memory, engine_memory_fields(), "memory of one GPU of an engine");
}

}  // namespace

const char* name_of(LoopLimit limit) {
  constexpr std::array names{"training", "generation", "both in turn"};
  return names.at(static_cast<std::size_t>(limit));
}

JsonFields<GenerationResult> generation_fields() {
  using G = GenerationResult;
  return JsonFields<G>()
      .value("requests_per_s", "1/s", &G::requests_per_s, "answers per second of all engines")
      .value("tokens_per_s", "1/s", &G::tokens_per_s, "generated tokens per second of all engines, without prompts")
      .value("tokens_per_s_per_gpu", "1/s", &G::tokens_per_s_per_gpu, "tokens_per_s divided by the number of GPUs")
      .value("tokens_per_s_interval", "1/s", &G::likely_tokens,
             "lower and upper end of the interval that holds tokens_per_s of real engines with a probability of 80 %")
      .when(&G::likely_tokens, "if the answer has intervals")
      .value("time_interval_s", "s", &G::likely_time, "80 % interval of time_s")
      .when(&G::likely_time, "if the answer has intervals")
      .value("token_interval_s", "s", &G::likely_token, "80 % interval of answer_times_s.token")
      .when(&G::likely_token, "with a constant number of prompts at a time")
      .value("first_token_interval_s", "s", &G::likely_first_token, "80 % interval of answer_times_s.first_token")
      .when(&G::likely_first_token, "with a constant number of prompts at a time")
      .value("unmeasured", "", &G::unmeasured,
             "the engine, GPU, format of weights or option that no measured engine has, so that the intervals do not "
             "cover it; empty: none")
      .inlined(&G::engines, engines_alone_fields());
}

JsonFields<PostTrainingResult> post_training_fields() {
  using P = PostTrainingResult;
  return JsonFields<P>()
      .value("algorithm", "", &P::algorithm, "algorithm of the loop: grpo, dapo, rloo, ppo, dpo or distillation")
      .value("step_time_s", "s", &P::step_time, "time of a step of the loop: the parts below less hidden_s")
      .value(
          "generation_s", "s", &P::generation,
          "time until the slowest engine has generated its answers; asynchronous: time in which some engine generates")
      .value(
          "log_probabilities_s", "s", &P::log_probabilities,
          "time of the forward passes over all samples, with those of a model of rewards and of a critic without nodes "
          "of its own")
      .value("training_s", "s", &P::training,
             "time of all optimizer steps, with those of a critic without nodes of its own")
      .value("critic_s", "s", &P::critic,
             "time of the critic: part of these two times, or with critic.nodes the sum of the next two")
      .value("critic_hidden_s", "s", &P::hidden_critic, "part of critic_s beside the policy's; 0 without critic.nodes")
      .value(
          "critic_wait_s", "s", [](const P& r) { return r.critic_wait(); },
          "part of the step in which the GPUs that train the policy wait for a critic on nodes of its own")
      .value("fetch_s", "s", &P::fetch, "asynchronous: part of the step in which training receives the answers")
      .value("reference_s", "s", &P::reference,
             "dpo, distillation: time of the forward pass of the reference or teacher over the samples of a step; part "
             "of log_probabilities_s unless it is precomputed")
      .value("reward_s", "s", &P::reward, "part of log_probabilities_s for the model of rewards")
      .value(
          "controller_s", "s", &P::controller,
          "part of log_probabilities_s and training_s in which padded samples go through the controller of the stack")
      .value("weights_s", "s", &P::weights, "time to transfer the new weights to the engines")
      .value("weights_network_s", "s", &P::weights_network,
             "least time of that transfer on the links of the machine; the library's own rate counts if it is slower")
      .value("weights_store_write_s", "s", &P::store_write,
             "part of weights_s in which they are written to weights_storage")
      .value("weights_store_read_s", "s", &P::store_read, "part of weights_s in which the engines read them from it")
      .value("reload_s", "s", &P::reload, "time to move weights and optimizer states out and back, if colocated")
      .value("reload_copies_s", "s", &P::reload_copies,
             "part of reload_s in which parameters and optimizer states leave the GPUs and come back")
      .value("loop_s", "s", &P::loop, "time besides these parts: rewards, preparation of data, workers")
      .value("hidden_s", "s", &P::hidden,
             "time of the shorter half that the longer one hides; asynchronous: of generation")
      .value("waiting_s", "s", &P::waiting,
             "time in which training waits for answers, receives them, or waits for engines to end theirs")
      .value("limit", "", &P::limit, "half that limits the step: training, generation, or both in turn")
      .value("bottleneck", "", &P::bottleneck,
             "resource of the what-if that saves most of the step, without more nodes of colocated halves; empty: none "
             "saves 0.5 %, or there are no what-ifs")
      .value("samples_per_s", "1/s", &P::samples_per_s, "answers per second that are generated and trained on")
      .value("tokens_per_s", "1/s", &P::tokens_per_s, "tokens per second that are trained on, with prompts")
      .value("tokens_per_s_per_gpu", "1/s", &P::tokens_per_s_per_gpu,
             "tokens_per_s divided by the number of GPUs of both halves")
      .value("gpus", "", &P::gpus, "number of GPUs of both halves, with those of a critic")
      .value("generation_gpus", "", &P::generation_gpus, "number of GPUs that generate")
      .value("training_gpus", "", &P::training_gpus, "number of GPUs that train")
      .value("colocated_gpus", "", &P::colocated_gpus,
             "number of GPUs that generate and train in turn, part of both numbers; 0: there are none")
      .value("critic_gpus", "", &P::critic_gpus, "number of GPUs that have only the critic")
      .value("engines", "", &P::engines, "number of engines")
      .value("optimizer_steps", "", &P::optimizer_steps, "number of optimizer steps of a step of the loop")
      .value("idle_generation_share", "share", &P::idle_generation,
             "share of the step in which the GPUs that generate do not generate; asynchronous: the mean of the "
             "engines, idle_engine_share")
      .value("idle_training_share", "share", &P::idle_training,
             "share of the step in which the GPUs that train neither train nor compute log-probabilities")
      .value("idle_critic_share", "share", &P::idle_critic,
             "share of the step in which the GPUs that have only the critic do nothing; 0: there are none")
      .value("idle_engine_share", "share", &P::idle_engines,
             "mean share of the step in which an engine computes nothing")
      .object("slowest_engine_s", &P::parts, engine_part_fields(),
              "parts of the time of the engine that ends last; asynchronous: mean of all engines in a step")
      .value("engine_limit", "", &P::engine_limit, "largest part of the time of that engine")
      .value("mean_answer_tokens", "", &P::mean_answer, "mean tokens of the drawn answers")
      .value("longest_answer_tokens", "", &P::longest_answer, "tokens of the longest drawn answer")
      .value("tail_s", "s", &P::tail, "time of the generation after nine of ten answers have ended")
      .value("token_time_s", "s", &P::token_time, "mean time of a decode step of the engine that ends last")
      .value("running_sequences", "", &P::sequences, "mean number of running sequences in its decode steps")
      .object("answer_times_s", &P::answers, answer_time_fields(),
              "times of answers; prompts of a synchronous step arrive at its beginning, those of a round at that of "
              "the round")
      .value("preemptions", "", &P::preemptions, "number of times that a sequence gave up its keys and values")
      .value("waits_for_cache", "", &P::waits_for_cache,
             "whether an answer waited because the cache of its engine had no room for it")
      .value("colocated_answers", "", &P::colocated_answers,
             "number of the started answers that engines on colocated_gpus generate; asynchronous: 0")
      .value("rounds", "", &P::rounds, "rounds of prompts that a step takes; above 1 with dynamic_sampling")
      .value("masked_answers", "", &P::masked_answers,
             "trained answers that were cut at their largest length and have no loss; 0 without overlong_filtering")
      .value("lost_answers", "", &P::lost_answers,
             "answers that started and were cut off, or were thrown away by dynamic_sampling")
      .value("lost_tokens", "", &P::lost_tokens, "tokens that were generated for these answers")
      .value("mean_staleness_steps", "steps", &P::mean_staleness,
             "mean steps between the policy that begins an answer and the one that is trained on it")
      .value("largest_staleness_steps", "steps", &P::most_staleness, "the largest of these numbers")
      .value("staleness", "answers", &P::staleness,
             "number of answers of the simulated steps, by these steps; asynchronous: of the steps of the mean")
      .value("mixed_answers_share", "share", &P::mixed_answers,
             "share of the answers whose tokens policies of several steps generate")
      .value("tokens_of_pass", "", &P::tokens_of_pass,
             "mean tokens that a pass of the model adds to a sequence; above 1 with speculation")
      .value("critic_states_bytes", "bytes", &P::critic_states,
             "parameters, gradients and optimizer states of the critic on the fullest GPU; 0: no critic")
      .value("training_peak_with_critic_bytes", "bytes", &P::critic_peak,
             "largest memory of a GPU that trains policy and critic in turn; with critic.nodes: of one that trains the "
             "critic alone; 0: no critic")
      .value("freed_states_bytes", "bytes", &P::freed_states,
             "parameters, gradients and optimizer states that critic.nodes takes off the fullest GPU of the policy")
      .value("reference_bytes", "bytes", &P::reference_weights,
             "weights of the reference or teacher on the fullest GPU; 0: none, or the frozen network under adapters. "
             "With rollouts they are on the GPU only in their pass, in place of the policy's")
      .value("training_peak_with_reference_bytes", "bytes", &P::reference_peak,
             "largest memory of a GPU that has policy and reference or teacher; 0: no such model during the training")
      .list("phases", &P::phases,
            JsonFields<P::PhaseMemory>()
                .value("phase", "", &P::PhaseMemory::phase, "part of the step")
                .value("needed_bytes", "bytes", &P::PhaseMemory::needed,
                       "memory that the fullest GPU needs in it, with CUDA's context and buffers")
                .value("usable_bytes", "bytes", &P::PhaseMemory::usable, "memory that programs can have")
                .value(
                    "fits", "", [](const P::PhaseMemory& p) { return p.fits(); }, "whether it fits"),
            "memory of the GPUs that train, by the models that they have in turn; the training of the policy alone and "
            "the engines are not here")
      .list("pools", &P::pools,
            JsonFields<P::Pool>()
                .value("pool", "", &P::Pool::name,
                       "generation, training, critic; GPUs that generate and train in turn are all, or both beside "
                       "generation")
                .value("gpus", "", &P::Pool::gpus, "number of its GPUs")
                .list("parts", &P::Pool::parts,
                      JsonFields<P::Pool::Part>()
                          .value("part", "", &P::Pool::Part::name, "what the GPUs do, or waiting")
                          .value("begin_s", "s", &P::Pool::Part::begin, "since the begin of the step")
                          .value("end_s", "s", &P::Pool::Part::end, "since the begin of the step"),
                      "parts of the step, one after another"),
            "what the GPUs of each pool do in a step; asynchronous: in the mean")
      .object("engine_memory_bytes", &P::memory, engine_memory_fields(), "memory of one GPU of an engine")
      .value("policy_bytes", "bytes", &P::policy, "size of the policy in bf16")
      .value(
          "sent_bytes", "bytes", &P::sent,
          "size of the policy as it goes to the engines: in bf16, or in their format if the library narrows it before")
      .value("step_time_interval_s", "s", &P::likely_step_times,
             "lower and upper end of the interval that holds the step time of a real loop with a probability of 80 %")
      .when(&P::likely_step_times, "if the answer has intervals")
      .value("samples_per_s_interval", "1/s", &P::likely_samples,
             "lower and upper end of the interval that holds the samples per second of a real loop with a probability "
             "of 80 %")
      .when(&P::likely_samples, "if the answer has intervals")
      .value("unmeasured", "", &P::unmeasured,
             "what no measured loop has, so that the intervals do not cover it; empty: nothing");
}

JsonFields<PostTrainingSplit> post_training_split_fields() {
  using S = PostTrainingSplit;
  return JsonFields<S>()
      .value("generation_nodes", "", &S::nodes, "number of nodes that only generate")
      .value("generation_gpus", "", &S::generation_gpus, "number of GPUs that generate")
      .value("training_gpus", "", &S::training_gpus, "number of GPUs that train")
      .value("step_time_s", "s", &S::step_time, "time of a step of the loop; 0: there is no such split")
      .value("generation_s", "s", &S::generation, "time of the generation")
      .value("training_half_s", "s", &S::training_half, "time of training, log-probabilities and loop")
      .value("tokens_per_s_per_gpu", "1/s", &S::tokens_per_s_per_gpu, "tokens per second and GPU")
      .value("error", "", &S::error, "why there is no such split; empty: there is one");
}

}  // namespace trainyard
