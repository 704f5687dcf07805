"""Writes a Llama of random weights, two layers, for a tokenizer file: model.py TOKENIZER DIRECTORY"""

import json
import pathlib
import shutil
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

tokenizer, directory = map(pathlib.Path, sys.argv[1:])
directory.mkdir(parents=True, exist_ok=True)
said = json.loads(tokenizer.read_text())
added = {token["content"]: token["id"] for token in said["added_tokens"]}
begin, end = "<|begin_of_text|>", "<|end_of_text|>"
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=1 + max(*said["model"]["vocab"].values(), *added.values()),
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=8192,
    bos_token_id=added[begin],
    eos_token_id=added[end],
    tie_word_embeddings=True,
)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(directory)
shutil.copy(tokenizer, directory / "tokenizer.json")
template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
(directory / "tokenizer_config.json").write_text(
    json.dumps(
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": begin,
            "eos_token": end,
            "model_max_length": 8192,
            "chat_template": template,
        }
    )
)
