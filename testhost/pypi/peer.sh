# Makes $PACKAGE in $DIR out of PyPI's packages, with all that it asks for.
rm -rf "$DIR/env"
python3 -m venv "$DIR/env"
"$DIR/env/bin/python" -m pip install --quiet --no-cache-dir uv==0.13.9
"$DIR/env/bin/uv" pip install --quiet --python "$DIR/env/bin/python" "$PACKAGE"
