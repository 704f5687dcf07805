PATH=$PATH:/usr/local/bin:/usr/bin:/opt/rocm/bin
pids=
if command -v nvidia-smi >/dev/null 2>&1; then
	nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>&1 | sed 's/^/nvidia=/'
	apps=$(nvidia-smi --query-compute-apps="$2" --format=csv,noheader,nounits 2>&1 | sed -n '/^[A-Z]*-[^,]*, [0-9]/p')
	echo "$apps" | sed -n 's/^./app=&/p'
	pids=$(echo "$apps" | sed -n 's/^[^,]*, \([0-9]*\),.*/\1/p')
fi
if command -v rocm-smi >/dev/null 2>&1; then
	rocm=$(rocm-smi --showmeminfo vram --showpids --json 2>&1)
	echo "$rocm" | sed 's/^/rocm=/'
	amd=$(echo "$rocm" | grep -o '"PID[0-9]*"' | tr -dc '0-9\n')
	# "PID 4711 is using 2 DRM device(s):", and their numbers on the next lines.
	[ -z "$amd" ] || rocm-smi --showpidgpus 2>&1 | awk '
		$1 == "PID" { pid = $2; next }
		/^[0-9 ]+$/ { if (pid) print "rocmgpus=" pid " " $0; next }
		{ pid = 0 }'
	pids="$pids $amd"
elif command -v amd-smi >/dev/null 2>&1; then
	amd-smi metric --mem-usage --json 2>&1 | sed 's/^/amdmem=/'
	amd=$(amd-smi process --json 2>&1)
	echo "$amd" | sed 's/^/amdapp=/'
	pids="$pids $(echo "$amd" | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')"
fi
# Whose they are: the container that the process's control group names, the mark that the agent
# gives its own processes, and the command. Others may write what they like into theirs.
me=$(id -u)
for pid in $pids; do
	container=$(grep -oE '[0-9a-f]{64}' "/proc/$pid/cgroup" 2>/dev/null | tail -n 1)
	mark=
	[ "$(stat -c %u "/proc/$pid" 2>/dev/null)" != "$me" ] ||
		mark=$(tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^HCL_PROCESS=//p' | head -n 1)
	echo "pid=$pid|$container|$mark|$(tr '\n' ' ' <"/proc/$pid/comm" 2>/dev/null)"
done
exit 0
