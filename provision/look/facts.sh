PATH=$PATH:/usr/local/bin:/usr/bin:/opt/rocm/bin
echo "hostname=$(uname -n)"
echo "machine=$(cat /etc/machine-id 2>/dev/null)"
echo "os=$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME" || uname -s)"
echo "kernel=$(uname -r)"
echo "arch=$(uname -m)"
echo "cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)"
echo "cpus=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)"
echo "memory_kib=$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo 2>/dev/null)"
echo "rocm_version=$(cat /opt/rocm/.info/version 2>/dev/null)"
echo "toolkit=$( (nvidia-ctk --version || nvidia-container-cli --version) 2>/dev/null | sed -n 's/^[^0-9]*\([0-9][0-9.]*\).*/\1/p' | head -n 1)"
if command -v nvidia-smi >/dev/null 2>&1; then
	nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>&1 | sed 's/^/nvidia=/'
fi
if command -v rocm-smi >/dev/null 2>&1; then
	rocm-smi --showproductname --showmeminfo vram --showuniqueid --showdriverversion --json 2>&1 | sed 's/^/rocm=/'
elif command -v amd-smi >/dev/null 2>&1; then
	amd-smi static --asic --vram --driver --json 2>&1 | sed 's/^/amd=/'
fi
exit 0
