PATH=$PATH:/usr/local/bin:/usr/bin:/sbin:/usr/sbin:/opt/rocm/bin
fields=$1
shift
# GPUs by what they are on the bus, whether a driver has taken them or not: display
# controllers (0x03....) and processing accelerators (0x12....).
for d in /sys/bus/pci/devices/*; do
	case $(cat "$d/vendor" 2>/dev/null) in 0x10de | 0x1002) ;; *) continue ;; esac
	case $(cat "$d/class" 2>/dev/null) in 0x03* | 0x12*) echo "pci=$(cat "$d/vendor") $(basename "$d")" ;; esac
done
if command -v nvidia-smi >/dev/null 2>&1; then
	# The reasons for clocks had another name before driver 535, and drivers refuse the
	# whole query for one name that they do not know.
	for reasons in clocks_throttle_reasons clocks_event_reasons; do
		gpus=$(nvidia-smi --query-gpu="$(echo "$fields" | sed "s/clocks_throttle_reasons/$reasons/")" --format=csv,noheader,nounits 2>&1)
		case $gpus in *'is not a valid field'*) ;; *) break ;; esac
	done
	echo "$gpus" | sed 's/^/nvidia=/'
	# Not every driver knows these: asked for apart, or one would spoil the others.
	clocks=$(nvidia-smi --query-gpu=clocks.applications.graphics,clocks.default_applications.graphics --format=csv,noheader,nounits 2>/dev/null) && echo "$clocks" | sed 's/^/clocks=/'
	remapped=$(nvidia-smi --query-remapped-rows=remapped_rows.pending,remapped_rows.failure --format=csv,noheader 2>/dev/null) && echo "$remapped" | sed 's/^/remapped=/'
	topology=$(nvidia-smi topo -m 2>/dev/null) && echo "$topology" | sed 's/^/topology=/'
fi
if command -v rocm-smi >/dev/null 2>&1; then
	rocm-smi --showfw 2>/dev/null | sed -n 's/.*MEC firmware version:[^0-9]*\([0-9][0-9]*\).*/mec=\1/p'
	rocm-smi --showmaxpower --showperflevel --json 2>&1 | sed 's/^/amd=/'
	topology=$(rocm-smi --showtopotype 2>/dev/null) && echo "$topology" | sed 's/^/topology=/'
elif command -v amd-smi >/dev/null 2>&1; then
	amd-smi static --limit --json 2>&1 | sed 's/^/limit=/'
	amd-smi metric --perf-level --json 2>&1 | sed 's/^/level=/'
	amd-smi firmware --json 2>&1 | sed 's/^/fw=/'
	amd-smi topology --link-type --json 2>&1 | sed 's/^/links=/'
fi
# Errors of a GPU's memory are counted where it has ECC; powers are in microwatts. The
# numbers of cards are not those of GPUs: each may have one for every part that it can be
# split into.
for f in /sys/class/drm/card*/device/ras/umc_err_count; do
	[ ! -e "$f" ] || echo "ras=$(basename "$(readlink -f "${f%/ras/*}")") $(paste -s -d' ' "$f" 2>/dev/null)"
done
for f in /sys/class/drm/card*/device/current_compute_partition; do
	[ ! -e "$f" ] || echo "partition=$(cat "$f" "${f%/*}/current_memory_partition" 2>/dev/null | paste -s -d' ' -)"
done
for f in /sys/class/drm/card*/device/hwmon/hwmon*/power1_cap_default; do
	[ ! -e "$f" ] || echo "power_default=$(cat "$f" 2>/dev/null)"
done
if command -v amd-smi >/dev/null 2>&1; then
	amd-smi metric --throttle --json 2>/dev/null | sed 's/^/throttle=/'
fi
[ ! -e /dev/kfd ] || echo "kfd=$([ -r /dev/kfd ] && [ -w /dev/kfd ] && echo usable)"
for d in /dev/dri/renderD*; do
	[ ! -e "$d" ] || echo "dri=$([ -r "$d" ] && [ -w "$d" ] && echo usable)"
done
echo "numa_balancing=$(sysctl -n kernel.numa_balancing 2>/dev/null || cat /proc/sys/kernel/numa_balancing 2>/dev/null)"
echo "cmdline=$(cat /proc/cmdline 2>/dev/null)"
echo "governor=$(cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor 2>/dev/null | sort | uniq | paste -s -d' ' -)"
echo "hugepages=$(sed -n 's/.*\[\(.*\)\].*/\1/p' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)"
echo "files=$(ulimit -n)"
echo "memlock=$(ulimit -l)"
echo "shm_kib=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $2 }')"
log=$(dmesg 2>/dev/null || journalctl -k -b --no-pager -q 2>/dev/null) || log=
[ -n "$log" ] || echo "log=unreadable"
# Not Xid 13, 31, 43 and 45, which are of programs and of those that were killed; nor what
# amdgpu says of RAS when all is well.
echo "$log" | grep -E 'NVRM: Xid|amdgpu.*(ring .* timeout|GPU reset|[1-9][0-9]* (new )?uncorrectable hardware errors)' | grep -vE 'NVRM: Xid \([^)]*\): (13|31|43|45),' | tail -n 5 | sed 's/^/kernel=/'
echo "$log" | grep 'Out of memory: Killed process' | tail -n 1 | sed 's/^/kernel=/'
for path; do # which may not be there yet: then what it will be made in
	dir=$path
	while [ ! -e "$dir" ] && [ "$dir" != / ] && [ "$dir" != . ]; do dir=$(dirname "$dir"); done
	echo "disk=$(df -Pk "$dir" 2>/dev/null | awk 'NR == 2 { print $4 }') $path"
done
echo "time=$(date +%s)"
exit 0
