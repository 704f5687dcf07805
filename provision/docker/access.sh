PATH=$PATH:/usr/local/bin:/usr/bin
# Where a daemon may listen, and whether this login may speak to it. The arguments
# are what the host block says; without them it is where daemons listen usually: of
# the environment, of the system, of the login itself.
look() {
	case $1 in
	unix://*) socket=${1#unix://} ;;
	*) echo "usable=$1" && return ;;
	esac
	if [ ! -S "$socket" ]; then
		echo "absent=$1"
	elif [ -r "$socket" ] && [ -w "$socket" ]; then
		echo "usable=$1"
	else
		echo "denied=$1"
	fi
}
if [ $# -eq 0 ]; then
	set -- "unix:///var/run/docker.sock" "unix://${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/docker.sock"
	[ -z "$DOCKER_HOST" ] || set -- "$DOCKER_HOST" "$@"
fi
for address; do look "$address"; done
for tool in docker dockerd sudo; do
	! command -v "$tool" >/dev/null 2>&1 || echo "tool=$tool"
done
echo "login=$(id -un)"
