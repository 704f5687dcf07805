PATH=$PATH:/usr/local/bin:/usr/bin:/sbin:/usr/sbin
# Intel's own driver has the same switch the other way round.
if [ -e /sys/devices/system/cpu/intel_pstate/no_turbo ]; then
	echo "no_turbo=$(cat /sys/devices/system/cpu/intel_pstate/no_turbo 2>/dev/null)"
else
	echo "boost=$(cat /sys/devices/system/cpu/cpufreq/boost 2>/dev/null)"
fi
for d in /sys/devices/system/node/node[0-9]*; do # those without processors are memory of GPUs, or of another kind
	[ -z "$(cat "$d/cpulist" 2>/dev/null)" ] || sed -n 's/^Node \([0-9]*\) MemTotal: *\([0-9]*\) kB.*/node=\1 \2/p' "$d/meminfo" 2>/dev/null
done
for f in /sys/devices/system/edac/mc/mc*/ue_count; do
	[ ! -e "$f" ] || echo "ue=$(cat "$f" 2>/dev/null)"
done
for d in /sys/bus/pci/devices/*; do # as condition.sh finds GPUs
	case $(cat "$d/vendor" 2>/dev/null) in 0x10de | 0x1002) ;; *) continue ;; esac
	case $(cat "$d/class" 2>/dev/null) in
	0x03* | 0x12*) ;;
	*) continue ;;
	esac
	at=$(readlink -f "$d")
	while [ "$(cat "${at%/*}/vendor" 2>/dev/null)" = 0x1002 ]; do # many GPUs of AMD's are behind a switch on their board, whose inner link says nothing
		at=${at%/*}
	done
	echo "link=$(basename "$d") $(cat "$at/current_link_width" "$at/max_link_width" 2>/dev/null | paste -s -d' ' -)"
done
if command -v nvidia-smi >/dev/null 2>&1; then
	# gpumax has come with driver 525
	gens=$(nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>/dev/null) && echo "$gens" | sed 's/^/gen=/'
	links=$(nvidia-smi nvlink --status 2>/dev/null) && echo "$links" | sed 's/^/nvlink=/'
fi
for d in /sys/class/net/*; do # what is no device, such as a bridge, has the speed of another, or none
	[ -e "$d/device" ] && [ "$(cat "$d/operstate" 2>/dev/null)" = up ] || continue
	echo "net=$(basename "$d") $(cat "$d/speed" 2>/dev/null) $(cat "$d/duplex" 2>/dev/null)"
done
exit 0
