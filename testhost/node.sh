# Makes a node of a test host: $1 its directory, $2 the subnet of its pods, $3 the DNS server. What the
# kubelet and containerd keep where everybody has it is the host's own.
set -e
mount --make-rshared /
mkdir -p "$1/var/lib" "$1/var/log" "$1/cni" "$1/sysctl"
mount --bind "$1/var/lib" /var/lib
mount --bind "$1/var/log" /var/log

# The kubelet wants the kernel to do certain things when it has no memory left or panics, and
# would see to that for the whole machine. It finds what it wants, and leaves the machine alone.
while read -r path value; do
	echo "$value" >"$1/sysctl/${path##*/}"
	mount --bind "$1/sysctl/${path##*/}" "/proc/sys/$path"
done <<EOF
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
EOF
echo 1 >/proc/sys/net/ipv4/ip_forward

# A control group of its own says whose a left-over is. With version 2 there is one tree,
# and what is below has to be told which controllers count.
if [ -e /sys/fs/cgroup/cgroup.subtree_control ]; then
	echo "+cpu +cpuset +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
	mkdir "/sys/fs/cgroup/${1##*/}"
else
	for tree in /sys/fs/cgroup/*/; do mkdir "$tree${1##*/}"; done
fi

cat >"$1/cni/pods.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
	{"type": "ptp", "ipam": {"type": "host-local", "dataDir": "$1/ipam", "ranges": [[{"subnet": "$2"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
	{"type": "portmap", "capabilities": {"portMappings": true}}
]}
EOF
cat >"$1/containerd.toml" <<EOF
version = 2
[grpc]
  address = "$1/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$1/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "hcl.test/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true # not everybody who is root may make a process less likely to be killed
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$1/cni"
EOF
cat >"$1/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}} # who reaches it is on our cable
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://$1/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /${1##*/}
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
protectKernelDefaults: true
volumePluginDir: $1/plugins
localStorageCapacityIsolation: false
clusterDNS: ["$3"]
clusterDomain: cluster.local
resolvConf: ""
nodeStatusUpdateFrequency: 1s # GPUs are there as soon as their plugin is
evictionHard: {memory.available: 1%, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
EOF
