# Makes vllm-router and sglang-router in $DIR out of PyPI's packages.
rm -rf "$DIR/env"
python3 -m venv "$DIR/env"
"$DIR/env/bin/python" -m pip install --quiet vllm-router==0.1.17 sglang-router==0.3.2
