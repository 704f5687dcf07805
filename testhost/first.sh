# The first process of a test host: $1 its directory, $2 its host name, $3 the
# make of its GPUs or nothing.
set -e
exec 3<&0 </dev/null
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd
mkdir -m 1777 /run/lock
echo "$2" >/proc/sys/kernel/hostname
mount --bind "$1/home" /root

# Device nodes and groups that drivers would bring. They are copies of /dev/null:
# they can be handed to a container, and that is all that is needed of them.
if [ -n "$3" ]; then
	mkdir "$1/dev"
	mount -t tmpfs -o mode=755 tmpfs "$1/dev"
	cp -a -x /dev/. "$1/dev/"
	for fs in pts shm mqueue; do
		if mountpoint -q "/dev/$fs"; then mount --rbind "/dev/$fs" "$1/dev/$fs"; fi
	done
	case $3 in
	nvidia)
		for n in ctl 0 1 2 3 4 5 6 7; do mknod -m 666 "$1/dev/nvidia$n" c 1 3; done
		;;
	amd)
		mknod -m 660 "$1/dev/kfd" c 1 3
		mkdir "$1/dev/dri"
		for n in 0 1 2 3 4 5 6 7; do mknod -m 660 "$1/dev/dri/renderD$((128 + n))" c 1 3; done
		grep -v -e '^video:' -e '^render:' /etc/group >"$1/group"
		printf 'video:x:44:\nrender:x:109:\n' >>"$1/group"
		mount --bind "$1/group" /etc/group
		;;
	esac
	mount --rbind "$1/dev" /dev
fi

echo ready
exec >/dev/null
# Not exec: as the first process this shell also reaps what daemons leave behind.
cat <&3 &
wait $!
