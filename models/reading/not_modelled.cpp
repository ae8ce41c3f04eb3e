#include "models/reading/not_modelled.hpp"

#include <algorithm>

#include "models/reading/document.hpp"

namespace trainyard {

const std::vector<NotModelled>& not_modelled() {
  static const std::vector<NotModelled> all{
      {"training in 4 bits", "plan.precision", {"fp4", "nvfp4", "mxfp4"}, {"fp8"}},
      {"fp8 with a scale for 32 numbers (MXFP8)", "plan.precision", {"mxfp8"}, {"fp8"}},
      {"decoders with state spaces and attention (hybrids)",
       "model",
       {"nemotron_h", "jamba", "zamba2", "bamba", "granitemoehybrid", "falcon_h1"},
       {"nemotron", "nemotron-4-340b"}},
      {"state spaces and recurrent decoders",
       "model",
       {"mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv7", "recurrent_gemma", "retnet", "xlstm"},
       {"llama", "llama-3-8b"}},
      {"linear attention",
       "model",
       {"qwen3_next", "kimi_linear", "minimax", "minimax_text_01"},
       {"qwen3_moe", "qwen3-235b-a22b"}},
      {"attention to selected tokens only", "model", {"deepseek_v32"}, {"deepseek_v3", "deepseek-v3"}},
      {"images or sound in a language model: its text part has a config of its own",
       "model",
       {"llava", "llava_next", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "mllama", "idefics2", "idefics3", "paligemma",
        "internvl_chat", "pixtral", "smolvlm", "qwen2_audio"},
       {"llama", "llama-3-8b"}},
      {"other encoders of images",
       "model",
       {"clip", "siglip", "swin", "swinv2", "dinov2", "deit", "beit", "convnext"},
       {"vit", "vit-b-16"}},
      {"diffusion", "model", {"stable-diffusion", "sdxl", "sd3", "flux", "dit", "unet"}, {"vit", "vit-l-16"}},
      {"speech", "model", {"whisper", "wav2vec2", "hubert"}, {"t5", "t5-base"}},
      {"other encoder-decoders", "model", {"bart", "mbart", "pegasus", "mt5", "umt5", "longt5"}, {"t5", "t5-base"}},
      {"other encoders of text",
       "model",
       {"roberta", "electra", "deberta", "deberta-v2", "distilbert", "albert", "modernbert"},
       {"bert", "bert-base"}},
      {"decoders before Llama",
       "model",
       {"opt", "bloom", "gpt_neo", "gptj", "gpt_neox", "falcon", "mpt"},
       {"gpt2", "gpt2-xl"}},
      {"other decoders since Llama",
       "model",
       {"cohere", "cohere2", "granite", "starcoder2", "stablelm", "internlm2", "baichuan", "smollm3"},
       {"llama", "llama-3-8b"}},
      {"other mixtures of experts",
       "model",
       {"dbrx", "olmoe", "phimoe", "granitemoe", "jetmoe", "arctic"},
       {"mixtral", "mixtral-8x7b"}},
      {"recurrent networks", "model", {"lstm", "gru", "rnn"}, {"mlp-mnist"}},
      {"training on graphs", "model", {"gcn", "gat", "graphsage"}, {"mlp-mnist"}},
      {"optimizers that multiply matrices", "plan.optimizer", {"muon", "shampoo", "soap"}, {"adamw"}},
      {"optimizers with one state other than momentum", "plan.optimizer", {"lion", "adagrad", "rmsprop"}, {"momentum"}},
      {"factored optimizer states", "plan.optimizer", {"adafactor"}, {"sgd"}},
      {"optimizer states in 8 bits", "plan.optimizer", {"adam8bit", "adamw8bit"}, {"adamw"}},
      {"further schedules without bubbles", "plan.pipeline.schedule", {"zb-v", "zb-h2"}, {"zb-2p"}},
      {"pipelines in both directions with two copies of the parameters",
       "plan.pipeline.schedule",
       {"dualpipe", "chimera"},
       {"dualpipe-v"}},
      {"schedules in waves or breadth first",
       "plan.pipeline.schedule",
       {"hanayo", "breadth-first"},
       {"interleaved-1f1b"}},
      {"pipelines without a flush, on older weights",
       "plan.pipeline.schedule",
       {"pipedream", "pipedream-2bw", "pipemare"},
       {"1f1b"}},
      {"serving: prefill and tokens one by one",
       "plan.mode",
       {"serving", "generation", "decode", "prefill"},
       {"inference"}},
      {"a mode for reinforcement learning: the section post_training generates, beside a plan for training",
       "plan.mode",
       {"rl", "rlhf", "ppo", "grpo"},
       {"training"}},
      {"XLA's own division of layers", "plan.strategy", {"jax", "maxtext", "gspmd"}, {"pytorch-fsdp"}},
      {"other frameworks of parallel training",
       "plan.strategy",
       {"colossalai", "paddle", "mindspore", "oneflow"},
       {"megatron"}},
      {"averaging with an outer optimizer", "plan.data_parallel.mechanism", {"diloco", "fedavg"}, {"local-sgd"}},
      {"direct networks of low diameter", "cluster.fabric", {"slim-fly", "hyperx", "hypercube"}, {"dragonfly"}},
      {"networks drawn at random or through servers", "cluster.fabric", {"jellyfish", "bcube", "dcell"}, {"fat-tree"}}};
  return all;
}

std::optional<std::string> nearest_modelled(std::string_view word, const std::vector<std::string>& names) {
  const auto legal = [&names](const std::string& name) {
    return std::any_of(names.begin(), names.end(), [&name](const std::string& n) { return same_name(n, name); });
  };
  for (const NotModelled& row : not_modelled())
    if (std::any_of(row.words.begin(), row.words.end(), [&](const auto& w) { return same_name(w, word); }))
      for (const std::string& name : row.nearest)
        if (legal(name)) return name;
  return std::nullopt;
}

}  // namespace trainyard
