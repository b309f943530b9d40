#!/bin/busybox sh
# SPDX-License-Identifier: BSD-2-Clause
# First process of the guest: puts the host's files under a throw-away layer and moves there.
# /config, written by the host, sets: root_tag transport shares modules debug host_name, and
# system and layers where the host's programs do not run here

fail() {
	echo "retsnoop-vm: cannot $*" >/dev/console
	busybox sleep 0.2
	busybox poweroff -f
}

# why FS LOG: why mounting a file system of type FS did not work, where LOG has mount's own words
why() {
	if busybox grep -qw "$1" /proc/filesystems; then
		busybox tail -n 1 "$2" | busybox sed 's/^mount: //'
	else
		echo "this kernel has no $1, neither built in nor among the modules it was given"
	fi
}

# mount_share TAG DIRECTORY ro|rw: by $transport
mount_share() {
	case $transport in
	virtiofs) options=$3 ;;
	9p) options="$3,trans=virtio,version=9p2000.L,msize=524288,access=any"
		# loose is fastest and right for what nobody writes; results must reach the host at once
		[ "$3" = ro ] && options="$options,cache=loose" || options="$options,cache=mmap" ;;
	esac
	busybox mount -t "$transport" -o "$options" "$1" "$2" 2>/mount.log && return 0
	refused="; $transport: $(why "$transport" /mount.log)"
	return 1
}

optional() {
	busybox mkdir -p "$root/$4" 2>/dev/null
	busybox mount -t "$1" -o "$2" "$3" "$root/$4" 2>/dev/null ||
		echo "retsnoop-vm: this kernel has no $1" >/dev/console
}

# plain TEXT: with %20 for a space as a space
plain() {
	printf '%b' "$(echo "$1" | busybox sed 's/%/\\x/g')"
}

# lay TOP LOWER...: the host's folders LOWER, the uppermost first, below a throw-away layer at TOP
lay() {
	top=$1
	count=$((count + 1))
	busybox mkdir -p "/rw/upper-$count" "/rw/work-$count" "$top"
	shift
	lower=
	for each; do
		lower=$lower${lower:+:}/lower$each
	done
	busybox mount -t overlay \
		-o "lowerdir=$lower,upperdir=/rw/upper-$count,workdir=/rw/work-$count" overlay "$top" \
		2>/mount.log || fail "mount the layer for what is written: $(why overlay /mount.log)"
}

. /config
root=/root
count=0
busybox mount -t devtmpfs dev /dev || fail "mount devtmpfs"
busybox mount -t proc proc /proc || fail "mount proc"
busybox mount -t sysfs sys /sys || fail "mount sysfs"
for module in /modules/*.ko; do
	[ -e "$module" ] || continue
	busybox insmod "$module" || fail "insert ${module##*/}"
done
mount_share "$root_tag" /lower ro ||
	fail "mount the host's files$refused"
busybox mount -t tmpfs -o mode=755 rw /rw || fail "mount tmpfs"
lay $root "$system"
# $layers: TOP=LOWER:LOWER...
for layer in $layers; do
	IFS=:
	set -- ${layer#*=}
	IFS=' '
	for each; do
		shift
		set -- "$@" "$(plain "$each")"
	done
	lay "$root$(plain "${layer%%=*}")" "$@"
done
# the overlay holds its own references; without these mounts nothing in the guest can reach the
# host's files past the layer
busybox umount /lower /rw

for kernel_fs in dev proc sys; do
	busybox mount -o move /$kernel_fs $root/$kernel_fs || fail "move /$kernel_fs"
done
busybox mkdir -p $root/dev/pts $root/dev/shm
optional devpts mode=620,ptmxmode=666 devpts dev/pts
optional tmpfs mode=1777 shm dev/shm
optional tmpfs mode=755 run run
optional cgroup2 rw cgroup2 sys/fs/cgroup
optional bpf mode=700 bpf sys/fs/bpf
optional debugfs rw debugfs sys/kernel/debug
optional tracefs rw tracefs sys/kernel/tracing
[ -e $root/dev/fd ] || busybox ln -s /proc/self/fd $root/dev/fd
for stream in in:0 out:1 err:2; do
	[ -e "$root/dev/std${stream%:*}" ] ||
		busybox ln -s "/proc/self/fd/${stream#*:}" "$root/dev/std${stream%:*}"
done

# $shares: TAG=PATH ..., where PATH is the host's own, with %20 for a space
for share in $shares; do
	path=$(plain "${share#*=}")
	busybox mkdir -p "$root/$path"
	mount_share "${share%%=*}" "$root/$path" rw || fail "mount $path$refused"
done
release=$(busybox uname -r)
if [ -n "$modules" ]; then
	busybox mkdir -p "$root/lib/modules/$release"
	busybox mount -o bind "$root/$modules" "$root/lib/modules/$release" ||
		fail "bind $modules"
	config=/lib/modules/$release/config
	if [ -f "$root$config" ] && [ ! -e "$root/boot/config-$release" ]; then
		busybox mkdir -p "$root/boot"
		busybox ln -sf "$config" "$root/boot/config-$release"
	fi
fi
if [ -n "$debug" ]; then
	busybox mkdir -p "$root/usr/lib/debug"
	busybox mount -o bind "$root/$debug/usr/lib/debug" "$root/usr/lib/debug" ||
		fail "bind $debug"
fi
busybox hostname "$host_name"
busybox ip link set lo up 2>/dev/null

home=$root/run/retsnoop-vm
busybox mkdir -p $home
busybox cp /bin/busybox /agent /config $home/
exec busybox switch_root $root /run/retsnoop-vm/busybox sh /run/retsnoop-vm/agent
