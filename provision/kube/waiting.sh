# The first process of a pod, which lives as long as an agent does: at first it waits for one, and later a
# while for the next.
trap 'exit 0' TERM
gone=0 most=600
while [ "$gone" -lt "$most" ]; do
  gone=$((gone + 1))
  for f in "$HOME"/.cache/hcl/agents/*/lock; do
    if [ -e "$f" ] && read -r pid <"$f" && [ -d "/proc/$pid" ]; then gone=0 most=30; fi
  done
  sleep 1 &
  wait $!
done
