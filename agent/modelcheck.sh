# What a host has of a model: in a directory ($1), or in Hugging Face's cache of one ($2)
# for a revision ($3). One fact per line as NAME=VALUE: sizes, and packed the beginnings
# of files that say what should be there. It reads headers, not weights.
dir=$1 cache=$2 revision=$3
sizes() (
	cd "$1" && find -L . -type f -exec stat -L -c "$2=%s %n" {} +
)
if [ -n "$cache" ]; then
	[ ! -d "$cache/blobs" ] || sizes "$cache/blobs" blob || exit
	commit=$revision
	[ ! -f "$cache/refs/$revision" ] || commit=$(cat "$cache/refs/$revision")
	echo "commit=$commit"
	dir=$cache/snapshots/$commit
fi
at=$dir # or what it will be made in
while [ ! -e "$at" ] && [ "$at" != / ] && [ "$at" != . ]; do at=$(dirname "$at"); done
echo "disk=$(df -Pk "$at" 2>/dev/null | awk 'NR == 2 { print $4, $6 }')"
echo "dir=$dir"
[ -d "$dir" ] || exit 0
echo "there=yes"
sizes "$dir" file || exit
cd "$dir" || exit
pack() { gzip -c | base64 | tr -d '\n'; }
find -L . -type f -name '*.safetensors' | while IFS= read -r f; do
	n=$(od -An -tu8 -N8 "$f" | tr -d ' ')
	[ ${#n} -le 9 ] || n=0
	echo "text=$(head -c $((n + 8)) "$f" | pack) $f"
done
for f in ./model.safetensors.index.json ./pytorch_model.bin.index.json; do
	[ ! -f "$f" ] || echo "text=$(pack <"$f") $f"
done
