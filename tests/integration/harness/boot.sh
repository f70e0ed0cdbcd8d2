#!/usr/bin/env bash
# The inside of harness/machine.py: makes a root of its own and becomes systemd in it.
#
#   boot.sh FOLDER SHARED
#
# Runs as process 1 of new namespaces. FOLDER, an empty one, takes the mounts. The new root shows this
# system's files and keeps what is written to them in memory; SHARED, with its sockets, is /srv/outside
# in it.
set -euo pipefail
folder=$1 shared=$2
mapfile -t cgroups < <(grep -E '^[^ ]+ [^ ]+ cgroup2? ' /proc/mounts) # before there are more
layers=$folder/layers root=$folder/root

mkdir "$layers" "$root"
mount -t tmpfs tmpfs "$layers"
mkdir "$layers/upper" "$layers/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" "$root"

mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"

# Cgroups as they are outside, seen from the branch that this process was put into.
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
for line in "${cgroups[@]}"; do
	read -r _ point type options _ <<<"$line"
	if [ "$point" = /sys/fs/cgroup ]; then
		mount -t cgroup2 cgroup2 "$root$point"
		continue
	fi
	# The hierarchy's own options; the others are the mount's.
	options=$(tr , '\n' <<<"$options" | grep -vxE 'rw|ro|relatime|no[a-z]+|memory_recursiveprot' | paste -sd, || true)
	[[ $options != name=* ]] || options=none,$options
	mkdir "$root$point"
	mount -t "$type" ${options:+-o "$options"} "$type" "$root$point"
done

mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
while read -r name minor; do
	mknod -m 666 "$root/dev/$name" c 1 "$minor"
done <<<$'null 3\nzero 5\nfull 7\nrandom 8\nurandom 9'
mknod -m 666 "$root/dev/tty" c 5 0
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

mkdir "$root/srv/outside"
mount --bind "$shared" "$root/srv/outside"
hostname segar-test
mkdir "$root/run/outside"
cd "$root"
pivot_root . run/outside
# The shell's own files lie outside: it lets go of them last.
exec env -i container=segar-test PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 sh -c \
	'umount -l /run/outside; mount --make-rshared /; exec /lib/systemd/systemd --unit=basic.target --log-target=journal' </dev/null
