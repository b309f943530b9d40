# SPDX-License-Identifier: BSD-2-Clause
# Process 1 of the guest once its files are in place. A lane takes one command after another from
# its virtio-serial port; a further port takes signals. Protocol, one line each:
#   host to lane N   run ID          run $jobs/ID/script, its output into $jobs/ID/{stdout,stderr}
#   lane N to host   ready RELEASE   once;  exit ID STATUS
#   host to signals  NAME ID SCOPE   send signal NAME to job ID: its process or its group

here=/run/retsnoop-vm
. $here/config

# there is no udev: the kernel names ports vport0pN, their own names are in sysfs
port() {
	for attempt in 1 2 3 4 5 6 7 8 9 10; do
		for entry in /sys/class/virtio-ports/*; do
			if [ "$(cat "$entry/name" 2>/dev/null)" = "$1" ]; then
				echo "/dev/${entry##*/}"
				return
			fi
		done
		sleep 0.1
	done
	echo "retsnoop-vm: cannot find the port $1" >/dev/console
	poweroff -f
}

run_job() {
	dir=$jobs/$1
	mkfifo "$here/$1.out" "$here/$1.err"
	cat "$here/$1.out" >>"$dir/stdout" &
	out=$!
	cat "$here/$1.err" >>"$dir/stderr" &
	err=$!
	if [ -e "$dir/stdin" ]; then
		input=$dir/stdin
	elif [ -e "$dir/live" ]; then
		input=$(port stdin)
	else
		input=/dev/null
	fi
	RSN_PID_FILE=$here/$1.pid setsid /bin/sh "$dir/script" \
		<"$input" >"$here/$1.out" 2>"$here/$1.err"
	status=$?
	# what the command left running may keep its output open for good
	(sleep 2; kill $out $err) 2>/dev/null &
	watchdog=$!
	wait $out $err
	kill $watchdog 2>/dev/null
	rm -f "$here/$1.out" "$here/$1.err" "$here/$1.pid"
	return $status
}

lane() {
	exec 3<>"$(port "lane$1")"
	echo "ready $(uname -r)" >&3
	while :; do
		# reading ends at once as long as QEMU has not said that the host is there
		read -r verb id <&3 || sleep 0.05
		[ "$verb" = run ] || continue
		run_job "$id" 2>/dev/null
		echo "exit $id $?" >&3
	done
}

signals() {
	exec 3<>"$(port signals)"
	while :; do
		read -r name id scope <&3 || sleep 0.05
		pid=$(cat "$here/$id.pid" 2>/dev/null) || continue
		[ "$scope" = group ] && pid=-$pid
		kill -s "$name" -- "$pid" 2>/dev/null
	done
}

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
cd /
# the kernel calls /sbin/modprobe by itself, for instance to mount a file system
[ -x /sbin/modprobe ] || ln -s $here/busybox /sbin/modprobe

# A foreground pipeline, although nothing flows in it: a shell starts "&" jobs with SIGINT and
# SIGQUIT ignored for good, and commands run in the guest must be able to be interrupted. Waiting
# for it, process 1 also reaps orphans.
lane 0 | lane 1 | lane 2 | lane 3 | signals
poweroff -f
