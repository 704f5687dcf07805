# The first process of a test host: $1 its directory, $2 its host name, $3 the
# make of its GPUs or nothing, $4 who logs in if not root, $5 who else may, $6 "sudo" when they
# may become root.
set -e
exec 3<&0 </dev/null
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p /run/sshd
mkdir -m 1777 /run/lock
echo "$2" >/proc/sys/kernel/hostname
mount --bind "$1/home" /root

# Logins that are not root: the first has root's home, at a place of its own, the second another.
if [ -n "$4$5" ]; then
	chmod 755 "$1"
	uid=61000
	for file in passwd group shadow; do cp -p "/etc/$file" "$1/$file"; done
	# What daemons of the test host have first, root has first as well.
	printf 'Defaults secure_path="%s/bin:%s"\nDefaults !fqdn\n' "$1" "$PATH" >"$1/sudoers"
	mount -t tmpfs -o mode=755 tmpfs /home
	for login in ${4:+"$4:home"} ${5:+"$5:other"}; do
		name=${login%:*} home=$1/${login#*:}
		echo "$name:x:$uid:$uid::/home/$name:/bin/sh" >>"$1/passwd"
		echo "$name:x:$uid:" >>"$1/group"
		echo "$name:*:19000:0:99999:7:::" >>"$1/shadow"
		echo "$name ALL=(root) NOPASSWD: ALL" >>"$1/sudoers"
		mkdir -p -m 700 "$home" "/home/$name"
		chown "$uid:$uid" "$home"
		mount --bind "$home" "/home/$name"
		uid=$((uid + 1))
	done
	for file in passwd group shadow; do mount --bind "$1/$file" "/etc/$file"; done
	if [ -n "$6" ]; then
		chmod 440 "$1/sudoers"
		mount --bind "$1/sudoers" /etc/sudoers
	fi
fi

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
		grep -v -e '^video:' -e '^render:' /etc/group >"$1/gpu-group"
		printf 'video:x:44:\nrender:x:109:\n' >>"$1/gpu-group"
		mount --bind "$1/gpu-group" /etc/group
		;;
	esac
	mount --rbind "$1/dev" /dev
fi

echo ready
exec >/dev/null
# Not exec: as the first process this shell also reaps what daemons leave behind.
cat <&3 &
wait $!
