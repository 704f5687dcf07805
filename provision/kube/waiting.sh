# The first process of a pod, which lives as long as its agent. For its first it waits $1 seconds in which nobody
# does anything there, and for the next after one that was killed as long: one that has ended has removed its socket.
trap 'exit 0' TERM
exec 2>/dev/null
home=${HOME%/} patience=$1 gone=0 came=
while [ "$gone" -lt "$patience" ]; do
  gone=$((gone + 1))
  for lock in "$home"/.cache/hcl/agents/*/lock; do
    # What is on a volume may be of other pods, whose numbers mean nothing here.
    if read -r pid <"$lock"; then
      case $(cat "/proc/$pid/cmdline") in *"--dir${lock%/lock}"*) gone=0 came=${lock%/lock} ;; esac
    fi
  done
  if [ -z "$came" ]; then
    set -- /proc/[0-9]*
    if [ $# -gt 1 ]; then gone=0; fi
  elif [ "$gone" -gt 3 ] && ! [ -e "$came/sock" ]; then # what it has said is read by now
    exit 0
  fi
  sleep 1 &
  wait $!
done
